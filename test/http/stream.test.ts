import { once } from 'node:events'
import { createServer, get } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import express from 'express'
import { expect, onTestFinished, test, vi } from 'vitest'
import { sendStream } from '../../src/http/stream.ts'
import { createUserRecords } from '../../src/library.ts'
import { execute } from '../support/databases.ts'
import { listen } from '../support/listen.ts'
import { insertManyUsers, LONG_END } from '../support/many-users.ts'
import { openResponse } from '../support/open-response.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { untilPasses } from '../support/until.ts'

test('a stream is not begun for a client that is gone', async () => {
  const write = vi.fn(async () => {})
  const app = express()
  const sent = new Promise<void>(resolve => {
    app.get('/', async (request, response) => {
      await once(response, 'close')
      await sendStream(request, response, { type: 'text/plain', write })
      resolve()
    })
  })
  const server = createServer(app)
  const request = get({ port: await listen(server), agent: false })
  request.on('error', () => {})
  await once(server, 'request')
  request.destroy()
  await sent
  expect(write).not.toHaveBeenCalled()
})

test("in another program's server too, whole lists and streams end whose readers take nothing for 30 seconds", async () => {
  const DATABASE_URL = join(temporaryFolder(), 'users.db')
  const records = await createUserRecords({ DATABASE_URL })
  onTestFinished(() => records.close())
  // More than the system buffers for clients that read nothing.
  execute(DATABASE_URL, insertManyUsers(12_000, LONG_END))
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const server = createServer(records.app)
  const sockets: Socket[] = []
  server.on('connection', socket => sockets.push(socket))
  const port = await listen(server)
  const ask = (path: string, accept: string) => openResponse(port, path, { Accept: accept })
  const lists = () => ask('/users', 'application/x-ndjson')
  const readers = await Promise.all([
    ...Array.from({ length: 4 }, lists),
    ask('/users/changes', 'text/event-stream'),
  ])
  expect(readers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200, 200])
  expect((await lists()).statusCode).toBe(503)
  vi.advanceTimersByTime(29_000)
  expect((await lists()).statusCode).toBe(503)
  await untilPasses(() => {
    vi.advanceTimersByTime(10_000)
    // One that is read on before its end would be whole.
    expect(sockets.slice(0, readers.length).every(({ destroyed }) => destroyed)).toBe(true)
  })
  expect((await lists()).statusCode).toBe(200)
  for (const reader of readers) reader.resume()
  await untilPasses(() => {
    expect(readers.map(({ closed, complete }) => closed && !complete)).not.toContain(false)
  })
})
