import { byId, element, setAttribute, setText, syncChildren } from './dom.ts'
import { formatClock, formatMoment, formatSpan } from './format.ts'
import { announce } from './notices.ts'
import type { View } from './state.ts'

/** How the page stands to the service. */
export type Connection =
  | { readonly kind: 'live' }
  | { readonly kind: 'locked' }
  /** `since` is the time of the last answer, or of the first attempt, by the browser's clock. */
  | { readonly kind: 'lost'; readonly since: number; readonly reason: string }

const SHORT: Readonly<Record<string, string>> = { ok: 'ok', local: 'local', unavailable: 'down' }

/** Shows name, version, readiness, checks and the state of the connection. */
export function createHeader() {
  let said = ''

  /** A change of state is said once; what changes with each answer is not said. */
  function say(state: string): void {
    if (said !== '' && state !== said) announce(state)
    said = state
  }

  function showReadiness(text: string, tone: string): void {
    const pill = byId('readiness')
    setText(pill, text)
    setAttribute(pill, 'data-tone', tone)
    document.title = `${text} · ${location.host} · User Records Service`
  }

  function show({ status, now }: View): void {
    const { version, started_at, checks, ready } = status
    setText(byId('version'), version)
    const began = Date.parse(started_at)
    setText(byId('uptime'), `up ${formatSpan(now - began)}, since ${formatMoment(began, now)}`)
    syncChildren(byId('checks'), Object.entries(checks), {
      keyOf: ([name]) => name,
      create: () => element('li'),
      update: (chip, [name, check]) => {
        setText(chip, `${name} ${SHORT[check.status] ?? check.status}`)
        setAttribute(chip, 'data-tone', check.status)
      },
    })
    const wrong = Object.entries(checks).filter(([, check]) => check.status === 'unavailable')
    const names = wrong.map(([name]) => name).join(', ')
    const text = ready ? 'Ready' : 'Not ready'
    showReadiness(text, ready ? 'good' : 'bad')
    say(ready ? 'The service is ready.' : `The service is not ready${names && `: ${names}`}.`)
  }

  function showConnection(connection: Connection, view: View | undefined): void {
    const isStale = connection.kind !== 'live'
    document.documentElement.classList.toggle('stale', isStale)
    document.documentElement.classList.toggle('lost', connection.kind === 'lost')
    const target = byId('connection')
    if (connection.kind === 'live') {
      setText(target, `Live · ${view === undefined ? '' : formatClock(view.now)}`)
    } else if (connection.kind === 'locked') {
      setText(target, 'A token is needed')
      showReadiness('Locked', 'warn')
      say('The service asks for a token.')
    } else {
      const { since, reason } = connection
      const age = formatSpan(Date.now() - since)
      setText(target, `${reason} since ${formatMoment(since, Date.now())} (${age}). Trying again…`)
      showReadiness(reason, 'bad')
      say(`${reason} since ${formatMoment(since, Date.now())}. The page tries again by itself.`)
    }
  }

  return { show, showConnection }
}
