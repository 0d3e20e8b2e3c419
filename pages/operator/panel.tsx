import type { ComponentChildren } from 'preact'
import type { ServiceStatus } from '../../src/ops/management/service-status.ts'
import type { HistorySample } from '../../src/ops/management/status-history.ts'
import type { Refusal } from './service.ts'

/** What the page shows. */
export interface View {
  readonly status: ServiceStatus
  /** The last 15 minutes, the oldest first. */
  readonly samples: readonly HistorySample[]
}

export interface ViewProps {
  readonly view: View
}

/** What parts of the page ask of the whole. */
export interface Actions {
  /** Asks for the status now. */
  refresh(): void
  notify(text: string): void
  /** Forgets the token, and with it all that is shown. */
  forget(): void
  /** What went wrong with a request of the operator. Asks for the token if that is what is missing. */
  explain(error: unknown): Refusal
}

export interface PanelProps extends ViewProps {
  readonly actions: Actions
}

export interface PanelFrame {
  /** Of the heading with `-title`, and of the note with `-note`. */
  readonly name: string
  readonly title: string
  /** Beside the title, in gray. */
  readonly note?: ComponentChildren
  readonly children: ComponentChildren
}

/** A part of the page with a heading. */
export function Panel({ name, title, note, children }: PanelFrame) {
  return (
    <section class="panel" aria-labelledby={`${name}-title`}>
      <h2 id={`${name}-title`}>{title}</h2>
      <p class="faint" id={`${name}-note`}>
        {note}
      </p>
      {children}
    </section>
  )
}

export type Fact = readonly [term: string, value: string]

/** A list of terms with their values. */
export function Facts({ id, facts }: { readonly id: string; readonly facts: readonly Fact[] }) {
  return (
    <dl class="facts" id={id}>
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
