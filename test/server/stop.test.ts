import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fillDatabase } from '../support/fill-users.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { CLOSING, requestBytes } from '../support/raw-request.ts'

const LIST = 'GET /users?per_page=1000'

/** More than the system buffers for a client that reads nothing. */
const LISTS = 30

test('a stop waits until a slow client has taken all its answers', async () => {
  const folder = temporaryFolder()
  await fillDatabase(folder, 1000, 'x'.repeat(255))
  const env = { DATABASE_URL: join(folder, 'data', 'users.db') }
  const { port, stop } = await openTestApp({ env })
  const slow = sendRaw(port, Buffer.concat(Array(LISTS).fill(requestBytes(LIST))))
  slow.socket.pause()
  // Connections are accepted in order.
  const [list] = await sendRaw(port, requestBytes(LIST, CLOSING)).ended
  const stopped = stop(60_000)
  // The stop closes this one when it closes idle connections.
  await once(sendRaw(port, '').socket, 'close')
  slow.socket.resume()
  const bodies = (await slow.ended).map(({ body }) => body)
  expect(bodies).toEqual(Array(LISTS).fill(list?.body))
  expect(await stopped).toBe(true)
})
