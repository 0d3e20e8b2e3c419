import { useLayoutEffect, useRef } from 'preact/hooks'
import { formatClock } from './format.ts'
import type { PanelProps, View } from './panel.tsx'
import { keepToken, readToken } from './service.ts'

const ICON = new URL('icon.svg', import.meta.url).href

/** How the page stands to the service. */
export type Connection =
  | { readonly kind: 'live' }
  /** A token is needed. `refusals` is how many were given in vain. */
  | { readonly kind: 'locked'; readonly refusals: number }
  /** `since` is the time of the last answer, or of the first attempt, by the browser's clock. */
  | { readonly kind: 'lost'; readonly since: number; readonly reason: string }

export interface HeaderProps extends Pick<PanelProps, 'actions'> {
  readonly connection: Connection
  /** `undefined` before the first answer, and without a token. */
  readonly view: View | undefined
  /** Of the address, such as `#users/7`. */
  readonly hash: string
}

/** The view of the page that a hash names, and what is open in it: nothing, `new` or an id. */
export function placeOf(hash: string) {
  const [, item = ''] = /^#users\/(new|\d+)$/.exec(hash) ?? []
  return { isUsers: /^#users(?:\/|$)/.test(hash), item }
}

/** Name, version, readiness, checks, and how the page stands to the service. */
export function Header({ connection, view, actions, hash }: HeaderProps) {
  const { title, tone } = readinessOf(connection, view)
  const checks = Object.entries(view?.status.checks ?? {})
  const isLocked = connection.kind === 'locked'
  const { isUsers } = placeOf(hash)
  const forget = useRef<HTMLButtonElement>(null)
  // The form takes the focus with it when it goes.
  useLayoutEffect(() => (isLocked ? () => forget.current?.focus() : undefined), [isLocked])

  return (
    <header class="top">
      <img src={ICON} alt="" width="26" height="26" />
      <h1>User Records Service</h1>
      <span id="version">{view?.status.version}</span>
      <nav aria-label="Views">
        <a href="#operations" aria-current={isUsers ? undefined : 'page'}>
          Operations
        </a>
        <a href="#users" aria-current={isUsers ? 'page' : undefined}>
          Users
        </a>
      </nav>
      <strong class={tone} id="readiness" role="status">
        {title}
      </strong>
      <span class="faint" id="checks">
        {connection.kind === 'live' &&
          checks.map(([name, { status }]) => `${name} ${status}`).join(' · ')}
      </span>
      <span id="connection">{describeConnection(connection, view)}</span>
      {isLocked && <TokenForm refusals={connection.refusals} onEntered={actions.refresh} />}
      {!isLocked && readToken() !== undefined && (
        <button type="button" ref={forget} onClick={actions.forget}>
          Forget the token
        </button>
      )}
    </header>
  )
}

/** The state of the service in a word. */
export function readinessOf(connection: Connection, view: View | undefined) {
  if (connection.kind === 'locked') return { title: 'Locked', tone: 'bad' }
  if (connection.kind === 'lost') return { title: connection.reason, tone: 'bad' }
  if (view === undefined) return { title: 'Connecting', tone: 'faint' }
  return view.status.ready ? { title: 'Ready', tone: 'good' } : { title: 'Not ready', tone: 'bad' }
}

function describeConnection(connection: Connection, view: View | undefined): string {
  if (connection.kind === 'locked') return 'A token is needed'
  if (connection.kind === 'lost') return `since ${formatClock(connection.since)}. Trying again…`
  return view === undefined ? '' : `Live · ${formatClock(Date.parse(view.status.now))}`
}

interface TokenFormProps {
  readonly refusals: number
  readonly onEntered: () => void
}

function TokenForm({ refusals, onEntered }: TokenFormProps) {
  const input = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => input.current?.focus(), [])

  function submit(event: Event): void {
    event.preventDefault()
    const field = input.current as HTMLInputElement
    const token = field.value.trim()
    if (token === '') return
    field.value = ''
    keepToken(token)
    onEntered()
  }

  return (
    <form class="fields" onSubmit={submit}>
      <label>
        MANAGEMENT_TOKEN
        <input
          id="token"
          type="password"
          autocomplete="off"
          title="It is kept for this tab, until you forget it or close the tab."
          aria-describedby="token-error"
          ref={input}
        />
      </label>
      <button type="submit">Use the token</button>
      <p class="bad" id="token-error" role="alert">
        {/* A new element each time, because a screen reader says again only what is new. */}
        {refusals > 0 && <span key={refusals}>The service does not accept this token.</span>}
      </p>
    </form>
  )
}
