import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { requestBytes, sendRaw } from '../support/raw-http.ts'

/** A rule that blocks the event loop for longer than requests are served at a time. */
const BLOCKING = `{ blocklist: [{ name: 'blocking', match: () => {
  const end = performance.now() + 100
  while (performance.now() < end);
  return false
} }] }`

const READ = 'GET /users/1'

/** Sends requests at the same time, on a connection each. Returns `line status` of their answers as they arrive. */
async function answersInOrder(env: Readonly<Record<string, string>>, lines: readonly string[]) {
  const { port, http } = await openTestApp({ limits: BLOCKING, env })
  await http.post('/users').send(newUserBody()).expect(201)
  const exchanges = await Promise.all(
    lines.map(async line => {
      const exchange = sendRaw(port, requestBytes('GET /livez'))
      await exchange.answers(1)
      return { ...exchange, line }
    }),
  )
  const arrived: string[] = []
  await Promise.all(
    exchanges.map(async ({ line, socket, answers }) => {
      socket.write(requestBytes(line))
      const [, answer] = await answers(2)
      arrived.push(`${line} ${answer?.status}`)
      socket.destroy()
    }),
  )
  return arrived
}

test('a health check is answered before requests that wait for their turn', async () => {
  const lines = [READ, READ, READ, 'GET /readyz']
  const arrived = await answersInOrder({}, lines)
  expect(arrived.toSorted()).toEqual(lines.toSorted().map(line => `${line} 200`))
  expect(arrived.at(-1)).toBe(`${READ} 200`)
})

test('a request that has waited for longer than MAX_EVENT_LOOP_DELAY is answered 503', async () => {
  const arrived = await answersInOrder({ MAX_EVENT_LOOP_DELAY: '50ms' }, [READ, READ, READ])
  expect(arrived).toEqual(expect.arrayContaining([`${READ} 200`, `${READ} 503`]))
})
