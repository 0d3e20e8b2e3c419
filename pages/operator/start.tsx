import { render } from 'preact'
import { formatMoment } from './format.ts'
import { type Notice, Page } from './page.tsx'
import { createPoller } from './poller.ts'
import { type Connection, readinessOf } from './readiness.ts'
import { explain, fetchStatus, needsToken, Refusal } from './service.ts'
import { createState } from './state.ts'

const MAX_NOTICES = 3

const host = document.getElementById('page') as HTMLElement
const state = createState()
const poller = createPoller(poll)
let connection: Connection = { kind: 'live' }
let answeredAt = Date.now()
let refusals = 0
let notices: readonly Notice[] = []
let noticed = 0
/** What a screen reader was told of the state, if only by the page as it was opened. */
let told = ''
let announcement = ''

const actions = {
  refresh: () => poller.start(),
  notify,
  dropNotice: (id: number) => {
    notices = notices.filter(notice => notice.id !== id)
    show()
  },
  explain: (error: unknown) => {
    if (needsToken(error)) askForToken()
    return explain(error)
  },
}

show()
poller.start()
// The age of what is shown, which grows while there are no answers.
setInterval(() => {
  if (connection.kind === 'lost' && !document.hidden) show()
}, 1000)

/** Asks for the status and shows it. Resolves to whether the service answered. */
async function poll(): Promise<boolean> {
  try {
    const status = await fetchStatus(state.newest())
    const isRestarted = state.accept(status)
    if (isRestarted) {
      const began = formatMoment(Date.parse(status.started_at), Date.parse(status.now))
      notify(`The service was restarted at ${began}.`)
    } else if (connection.kind === 'lost') notify('The service answers again.')
    answeredAt = Date.now()
    connection = { kind: 'live' }
    show()
    return true
  } catch (error) {
    if (needsToken(error)) askForToken()
    else showLost(error)
    return false
  }
}

function askForToken(): void {
  connection = { kind: 'locked', refusals: ++refusals }
  poller.stop()
  show()
}

/** Shows that the service cannot be asked now, until it answers again. */
function showLost(error: unknown): void {
  const reason = error instanceof Refusal ? error.reason : 'Unreachable'
  if (connection.kind !== 'lost' || connection.reason !== reason) {
    connection = { kind: 'lost', since: answeredAt, reason }
  }
  show()
}

function notify(text: string): void {
  notices = [...notices, { id: ++noticed, text }].slice(-MAX_NOTICES)
  show()
}

function show(): void {
  const view = state.view()
  const { title, sentence } = readinessOf(connection, view)
  // A change of state is announced once; what changes with each answer is not.
  if (sentence !== told && told !== '') announcement = sentence
  told = sentence
  document.title = `${title} · ${location.host} · User Records Service`
  render(<Page {...{ actions, connection, view, notices, announcement }} />, host)
}
