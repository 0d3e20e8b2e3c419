import { createBans } from './bans.ts'
import { createCharts } from './charts.ts'
import { formatMoment } from './format.ts'
import { type Connection, createHeader } from './header.ts'
import { createLimits } from './limits.ts'
import { notify } from './notices.ts'
import { createDatabase, createKeys, createProcess, createRoutes } from './panels.ts'
import { createPoller } from './poller.ts'
import { fetchStatus, Refusal } from './service.ts'
import { createState } from './state.ts'
import { createTiles } from './tiles.ts'
import { createTokenDialog } from './token.ts'

const header = createHeader()
const state = createState()
const token = createTokenDialog(() => poller.start())
const poller = createPoller(poll)
const panels = [
  createTiles(),
  createCharts(),
  createLimits({ onTrouble, onChange: () => poller.start() }),
  createBans({ onTrouble }),
  createRoutes(),
  createDatabase(),
  createProcess(),
  createKeys(),
]
let connection: Connection = { kind: 'live' }
let answeredAt = Date.now()

poller.start()
// The age of what is shown, which grows while there are no answers.
setInterval(() => {
  if (connection.kind === 'lost' && !document.hidden)
    header.showConnection(connection, state.view())
}, 1000)

/** Asks for the status and shows it. Resolves to whether the service answered. */
async function poll(): Promise<boolean> {
  const status = await fetchStatus(state.newest()).catch(error => {
    const isLocked = error instanceof Refusal && error.status === 401
    if (isLocked) onTrouble(error)
    else showLost(error)
  })
  if (status === undefined) return false
  const isRestarted = state.accept(status)
  const wasLost = connection.kind === 'lost'
  answeredAt = Date.now()
  connection = { kind: 'live' }
  token.accept()
  if (isRestarted) {
    const began = Date.parse(status.started_at)
    notify(`The service was restarted at ${formatMoment(began, Date.parse(status.now))}.`)
  } else if (wasLost) notify('The service answers again.')
  show()
  return true
}

function show(): void {
  const view = state.view()
  if (view === undefined) return
  header.show(view)
  for (const panel of panels) panel.update(view)
  header.showConnection(connection, view)
}

/** Shows that the service cannot be asked now, until it answers again. */
function showLost(error: unknown): void {
  const reason = error instanceof Refusal ? `Answers ${error.status}` : 'Unreachable'
  if (connection.kind !== 'lost' || connection.reason !== reason) {
    connection = { kind: 'lost', since: answeredAt, reason }
  }
  header.showConnection(connection, state.view())
}

/** Asks for the token if that is what an error is about. Returns the error in words. */
function onTrouble(error: unknown): string {
  if (!(error instanceof Refusal)) return 'The service cannot be reached.'
  if (error.status !== 401) return error.message
  connection = { kind: 'locked' }
  poller.stop()
  header.showConnection(connection, state.view())
  token.ask()
  return 'The service asks for a token.'
}
