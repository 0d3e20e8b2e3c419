import { formatClock, formatMoment, formatSpan } from './format.ts'
import type { Actions } from './panel.tsx'
import { type Connection, readinessOf } from './readiness.ts'
import type { View } from './state.ts'
import { Token } from './token.tsx'

const ICON = new URL('icon.svg', import.meta.url).href

export interface HeaderProps {
  readonly connection: Connection
  readonly view: View | undefined
  readonly actions: Actions
}

/** Name, version, readiness, checks, and how the page stands to the service. */
export function Header({ connection, view, actions }: HeaderProps) {
  const { title, tone } = readinessOf(connection, view)
  return (
    <header class="top">
      <div class="who">
        <img src={ICON} alt="" width="26" height="26" />
        <h1>User Records Service</h1>
        <span class="faint" id="version">
          {view?.status.version}
        </span>
      </div>
      <div class="state">
        <strong class="pill" id="readiness" data-tone={tone}>
          {title}
        </strong>
        <ul class="chips" id="checks" aria-label="Checks">
          {Object.entries(view?.status.checks ?? {}).map(([name, { status }]) => (
            <li key={name} data-tone={status}>
              {`${name} ${status === 'unavailable' ? 'down' : status}`}
            </li>
          ))}
        </ul>
        <span class="faint" id="uptime">
          {view && describeUptime(view)}
        </span>
      </div>
      <div class="connection">
        <span id="connection">{describeConnection(connection, view)}</span>
        <Token {...{ connection, actions }} />
      </div>
    </header>
  )
}

function describeUptime({ status, now }: View): string {
  const began = Date.parse(status.started_at)
  return `up ${formatSpan(now - began)}, since ${formatMoment(began, now)}`
}

function describeConnection(connection: Connection, view: View | undefined): string {
  if (connection.kind === 'locked') return 'A token is needed'
  if (connection.kind === 'live') {
    return view === undefined ? 'Waiting for the service' : `Live · ${formatClock(view.now)}`
  }
  const { since, reason } = connection
  const age = formatSpan(Date.now() - since)
  return `${reason} since ${formatMoment(since, Date.now())} (${age}). Trying again…`
}
