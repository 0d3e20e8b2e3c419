import type { ComponentChildren } from 'preact'
import type { View } from './state.ts'

/** What parts of the page ask of the whole. */
export interface Actions {
  /** Asks for the status now. */
  refresh(): void
  notify(text: string): void
  dropNotice(id: number): void
  /** What went wrong with a request of the operator, in words. Asks for the token if that is what is missing. */
  explain(error: unknown): string
}

export interface PanelProps {
  readonly view: View | undefined
  readonly actions: Actions
}

export interface PanelFrame {
  /** Of the style sheet, of the heading with `-title`, and of the note with `-note`. */
  readonly name: string
  readonly title: string
  /** Beside the title, in gray. */
  readonly note?: ComponentChildren
  /** At the right end of the head. */
  readonly button?: ComponentChildren
  readonly children: ComponentChildren
}

/** A part of the page with a heading. */
export function Panel({ name, title, note, button, children }: PanelFrame) {
  return (
    <section class={`panel ${name}`} aria-labelledby={`${name}-title`}>
      <div class="panel-head">
        <h2 id={`${name}-title`}>{title}</h2>
        <span class="faint" id={`${name}-note`}>
          {note}
        </span>
        {button}
      </div>
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

/** The button that takes a message away. */
export function Close({ onClick }: { readonly onClick: () => void }) {
  return (
    <button type="button" class="close" aria-label="Close" onClick={onClick}>
      ×
    </button>
  )
}
