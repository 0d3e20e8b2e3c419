import { render } from 'preact'
import { formatClock } from './format.ts'
import { type Connection, placeOf, readinessOf } from './header.tsx'
import { Page } from './page.tsx'
import type { View } from './panel.tsx'
import { fetchStatus, forgetToken, type Refusal, readToken, refusalOf } from './service.ts'
import { holdsUnsaved, mayLeave } from './unsaved.ts'

const EVERY_MS = 2000
/** The view of users shows only whether the service is ready. */
const EVERY_MS_FOR_USERS = 10_000
/** Later than every sample. */
const NO_SAMPLES = '9999-12-31T00:00:00Z'
const KEPT_MS = 15 * 60_000
const MESSAGE_MS = 10_000

const host = document.getElementById('page') as HTMLElement
let hash = location.hash
let view: View | undefined
let connection: Connection = { kind: 'live' }
let answeredAt = Date.now()
let message = ''
let polling = 0
let polls = 0
let clearing = 0

const actions = {
  refresh: () => void poll(),
  notify,
  forget: () => {
    if (!mayLeave()) return
    view = undefined
    forgetToken()
    void poll()
  },
  explain: (error: unknown) => {
    const refusal = refusalOf(error)
    if (refusal.status === 401) lock()
    return refusal
  },
}

// What nobody sees is not asked for.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) window.clearTimeout(polling)
  else if (connection.kind !== 'locked') void poll()
})
window.addEventListener('hashchange', () => {
  if (location.hash === hash) return
  if (!mayLeave()) return location.replace(hash)
  hash = location.hash
  show()
  if (connection.kind !== 'locked') void poll()
})
show()
void poll()

/** Asks for the status and shows it, now and then every two seconds. Only the newest answer counts: the token may be another. */
async function poll(): Promise<void> {
  const turn = ++polls
  const { isUsers } = placeOf(hash)
  try {
    const status = await fetchStatus(isUsers ? NO_SAMPLES : view?.samples.at(-1)?.at)
    if (turn !== polls) return
    accept(status)
  } catch (error) {
    if (turn !== polls) return
    const refusal = actions.explain(error)
    if (refusal.status !== 401) lose(refusal)
  }
  window.clearTimeout(polling)
  if (connection.kind !== 'locked' && !document.hidden) {
    polling = window.setTimeout(poll, placeOf(hash).isUsers ? EVERY_MS_FOR_USERS : EVERY_MS)
  }
}

function accept(status: View['status']): void {
  const isRestarted = view !== undefined && view.status.started_at !== status.started_at
  if (isRestarted)
    notify(`The service was restarted at ${formatClock(Date.parse(status.started_at))}.`)
  else if (connection.kind === 'lost') notify('The service answers again.')
  view = { status, samples: joinSamples(isRestarted ? [] : (view?.samples ?? []), status) }
  answeredAt = Date.now()
  connection = { kind: 'live' }
  show()
}

/** Without those that are too old, and those of the future that a clock leaves behind when it is set back. */
function joinSamples(known: View['samples'], { now, history }: View['status']): View['samples'] {
  const newest = known.at(-1)?.at ?? ''
  const added = history.samples.filter(({ at }) => at > newest)
  return [...known, ...added].filter(({ at }) => {
    const age = Date.parse(now) - Date.parse(at)
    return age >= 0 && age <= KEPT_MS
  })
}

function notify(text: string): void {
  message = text
  window.clearTimeout(clearing)
  clearing = window.setTimeout(() => {
    message = ''
    show()
  }, MESSAGE_MS)
  show()
}

/** Asks for the token, and for nothing else until there is one. Nothing is shown without it, and only what is not saved is kept. */
function lock(): void {
  if (!holdsUnsaved()) view = undefined
  message = ''
  window.clearTimeout(polling)
  const before = connection.kind === 'locked' ? connection.refusals : 0
  connection = { kind: 'locked', refusals: before + (readToken() === undefined ? 0 : 1) }
  forgetToken()
  show()
}

/** Shows that the service cannot be asked now, until it answers again. */
function lose({ reason }: Refusal): void {
  connection = { kind: 'lost', since: answeredAt, reason }
  show()
}

function show(): void {
  document.title = `${readinessOf(connection, view).title} · ${location.host} · User Records Service`
  render(<Page {...{ actions, connection, view, message, hash }} />, host)
}
