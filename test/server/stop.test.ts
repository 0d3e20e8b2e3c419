import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { makeDatabaseIn } from '../support/databases.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { CLOSING, requestBytes, sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const LIST = 'GET /users?per_page=1000'

/** Longer than it takes to answer. If it is not, the test still passes. */
const STUCK_MS = 300

test('a stop waits until a slow client has taken its whole answer', async () => {
  const DATABASE_URL = makeDatabaseIn(temporaryFolder(), { users: 1000, name: 'x'.repeat(255) })
  const { port, stop, logLines } = await openTestApp({ env: { DATABASE_URL } })
  const [list] = await sendRaw(port, requestBytes(LIST, CLOSING)).ended
  const slow = sendRaw(port, '')
  slow.socket.pause()
  let asked = 0
  // Until the system buffers no more for it. The line of a request is written once the system has its answer.
  for (let isTaken = true; isTaken; asked++) {
    const before = logLines.length
    slow.socket.write(requestBytes(LIST))
    const taken = until(() => logLines.length > before)
    isTaken = await Promise.race([taken, sleep(STUCK_MS, false)])
  }
  const stopped = stop(60_000)
  // The stop closes this one when it closes idle connections.
  await once(sendRaw(port, '').socket, 'close')
  slow.socket.resume()
  const bodies = (await slow.ended).map(({ body }) => body)
  expect(bodies).toEqual(Array(asked).fill(list?.body))
  expect(await stopped).toBe(true)
})

test('a stop cuts off a stream of events whose client takes nothing', async () => {
  const DATABASE_URL = makeDatabaseIn(temporaryFolder(), { users: 20_000, name: 'x'.repeat(255) })
  const { port, stop } = await openTestApp({ env: { DATABASE_URL } })
  const stream = sendRaw(
    port,
    requestBytes('GET /users/changes', { Accept: 'text/event-stream' }),
  ).socket
  await once(stream, 'readable')
  stream.pause()
  await sleep(STUCK_MS)
  expect(await stop(5000)).toBe(true)
})

test('a stop does not wait for the rest of a body whose request is answered', async () => {
  const { port, stop } = await openTestApp()
  // Less than such a request may take.
  const timeoutMs = 20_000
  const stalled = requestBytes(
    'POST /nowhere',
    { 'Content-Length': '1000' },
    'the rest never comes',
  )
  const { answers, ended } = sendRaw(port, stalled)
  await answers(1)
  expect(await stop(timeoutMs)).toBe(true)
  expect((await ended).map(({ status }) => status)).toEqual([404])
})

test('a stop whose time runs out while the rest of such a body comes has answered all', async () => {
  const { port, stop } = await openTestApp()
  const { answers } = sendRaw(port, requestBytes('POST /nowhere', { 'Content-Length': '9' }, 'a'))
  await answers(1)
  expect(await stop(1)).toBe(true)
})
