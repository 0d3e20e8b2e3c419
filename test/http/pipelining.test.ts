import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

/** More than may wait in all, were they read at once. */
const MANY = 12_000

function request(method: string, path: string, body?: object): string {
  const json = body === undefined ? '' : JSON.stringify(body)
  const entity = body && `Content-Type: application/json\r\nContent-Length: ${json.length}\r\n`
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${entity ?? ''}\r\n${json}`
}

test('requests on one connection see what those before them did, and are answered in order', async () => {
  const { port } = await openTestApp()
  const { answers, socket } = sendRaw(
    port,
    [
      request('POST', '/users', newUserBody({ name: 'Ann' })),
      request('PUT', '/users/1', { user: { name: 'Bea' } }),
      request('GET', '/users/1'),
      request('DELETE', '/users/1'),
      request('GET', '/users/1'),
      request('GET', '/livez'),
    ].join(''),
  )
  const all = await answers(6)
  expect(all.map(({ status }) => status)).toEqual([201, 200, 200, 204, 404, 200])
  expect(JSON.parse(all[2]?.body ?? '')).toMatchObject({ name: 'Bea' })
  socket.destroy()
})

test('a flood of requests on one connection is answered whole, while others have their turns', async () => {
  const { port, http } = await openTestApp()
  const flood = sendRaw(port, request('GET', '/livez').repeat(MANY))
  await once(flood.socket, 'data')
  let turns = 0
  const others = (async () => {
    while (!flood.socket.destroyed) {
      expect((await http.get('/users')).status).toBe(200)
      turns++
      await sleep(20)
    }
  })()
  flood.socket.write(
    request('GET', '/no-such-path').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
  )
  const answers = await flood.ended
  await others
  expect(answers.map(({ status }) => status)).toEqual([...Array(MANY).fill(200), 404])
  expect(turns).toBeGreaterThan(3)
})

test('a body that arrives after a held connection goes on is read', async () => {
  const { port } = await openTestApp()
  const [head = '', body = ''] = request('POST', '/users', newUserBody()).split('\r\n\r\n')
  const last = request('GET', '/users/1').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
  const exchange = sendRaw(port, `${request('GET', '/users').repeat(100)}${head}\r\n\r\n`)
  await exchange.answers(100)
  exchange.socket.write(body + last)
  const answers = await exchange.ended
  expect(answers.slice(100).map(({ status }) => status)).toEqual([201, 200])
})

test('a request that breaks off while it waits is refused, after those before it', async () => {
  const { port, logLines } = await openTestApp()
  const broken =
    'POST /users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n' +
    'Transfer-Encoding: chunked\r\n\r\nnonsense\r\n'
  const slow = request('POST', '/users', newUserBody({ password: 'correct horse' }))
  const answers = await sendRaw(port, slow + request('GET', '/users/1') + broken).ended
  expect(answers.map(({ status }) => status)).toEqual([201, 200, 400])
  for (const { headers } of answers) expect(headers['x-request-id']).toMatch(/^[\w.-]{1,128}$/)
  expect(logLines.filter(({ level }) => level === 'error')).toEqual([])
})

test('what waits on a connection whose client is gone is not done', async () => {
  const { port, http } = await openTestApp()
  const slow = request('POST', '/users', newUserBody({ password: 'correct horse' }))
  const others = Array.from({ length: 900 }, () => request('POST', '/users', newUserBody()))
  const { socket } = sendRaw(port, slow + others.join(''))
  await new Promise<void>(resolve => socket.write('', () => resolve()))
  await sleep(5)
  socket.resetAndDestroy()
  await http.post('/users').send(newUserBody({ password: 'correct horse' }))
  await sleep(100)
  expect((await http.get('/users?per_page=1000')).body.length).toBeLessThan(450)
})

test('a hundred connections that flood at once are cut off, and no other', async () => {
  // Not the wait of the honest one is what this is about.
  const { port, http } = await openTestApp({ env: { MAX_EVENT_LOOP_DELAY: '1 minute' } })
  const path = '/users?per_page=1000'
  await Promise.all(
    Array.from({ length: 100 }, () =>
      http.post('/users').send(newUserBody({ name: 'x'.repeat(255) })),
    ),
  )
  const honest = sendRaw(port, request('GET', '/livez'))
  await honest.answers(1)
  const floods = Array.from({ length: 100 }, () => {
    const exchange = sendRaw(port, request('GET', path).repeat(2000))
    exchange.socket.pause()
    return exchange
  })
  await Promise.race(floods.map(({ ended }) => ended))
  honest.socket.write(request('GET', '/users/1'))
  expect(await honest.answers(2)).toMatchObject([{ status: 200 }, { status: 200 }])
  for (const { socket } of floods) socket.destroy()
  honest.socket.destroy()
})
