import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { makeDatabaseIn } from '../support/databases.ts'
import { inForm, isLong, quantile, report } from '../support/faults.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { keepAsking } from './crowd.ts'

/** Number of clients of each kind. */
const CLIENTS = inForm({ short: 10, long: 250 })

const DRIBBLE_MS = inForm({ short: 20, long: 1000 })

/** Longer than an honest client has to wait on a busy machine. The long form has those of the real service. */
const TIMEOUTS = { headersMs: 3000, requestMs: 4000, takeMs: 3000, checkEveryMs: 50 }

const HEAD = 'HTTP/1.1\r\nHost: localhost\r\n'

const POST = `POST /users ${HEAD}Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n{`

/** Answers of so many users do not fit into the buffers of the system. */
const LISTS = `GET /users?per_page=1000 ${HEAD}\r\n`.repeat(100)

interface Kind {
  readonly start: string
  /** Sent again and again; nothing if left out. */
  readonly dribble?: string
  readonly reads?: boolean
  readonly answer: RegExp
}

const KINDS: Readonly<Record<string, Kind>> = {
  headers: { start: `GET /users ${HEAD}`, dribble: 'X', answer: /^HTTP\/1.1 408 / },
  bodies: { start: POST, dribble: ' ', answer: /^HTTP\/1.1 408 / },
  silent: { start: '', answer: /^(?:HTTP\/1.1 408 |$)/ },
  // A write that fails shows that the connection is closed.
  unread: { start: LISTS, dribble: 'G', reads: false, answer: /^$/ },
}

async function untilCutOff(port: number, { start, dribble = '', reads = true }: Kind) {
  const startedAt = performance.now()
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  let received = ''
  if (reads) {
    socket.on('data', data => {
      received += data
    })
  } else socket.pause()
  socket.on('error', () => {})
  socket.write(start)
  const dribbling = setInterval(() => dribble && socket.write(dribble), DRIBBLE_MS)
  await new Promise(resolve => socket.once('close', resolve))
  clearInterval(dribbling)
  return { received, ms: Math.round(performance.now() - startedAt) }
}

test('clients that send slowly, send nothing or do not read are cut off, and others are served meanwhile', async () => {
  const cwd = temporaryFolder()
  const env = { DATABASE_URL: makeDatabaseIn(cwd, { users: 1000, name: 'x'.repeat(255) }) }
  const service = await (isLong
    ? spawnService({ cwd, env })
    : openTestApp({ env, timeouts: TIMEOUTS }))
  const honest = keepAsking(`${service.url}/users/1`)
  const kinds = await Promise.all(
    Object.entries(KINDS).map(async ([name, kind]) => {
      const clients = Array.from({ length: CLIENTS }, () => untilCutOff(service.port, kind))
      return { name, kind, cutOff: await Promise.all(clients) }
    }),
  )
  for (const { name, kind, cutOff } of kinds) {
    for (const { received } of cutOff) expect(received).toMatch(kind.answer)
    report(`slow clients: ${name}`, {
      slowestMs: quantile(
        cutOff.map(({ ms }) => ms),
        1,
      ),
    })
  }
  expect(await honest()).toEqual([200])
})
