import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { beginPost } from '../support/begin-post.ts'
import { newUserBody } from '../support/builders.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type RawAnswer, type RawExchange, sendRaw } from '../support/raw-http.ts'
import { linesOf, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

/** Longer than a test may take, so that no stop ends by its timeout. */
const NO_HURRY = { SHUTDOWN_TIMEOUT: '10 minutes' }

/** Throws, as a bug would, once the file `boom` is there. */
const BUG = `
  const { existsSync } = require('node:fs')
  setInterval(() => {
    if (existsSync('boom')) throw new Error('boom')
  }, 5).unref()`

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

test.each(SIGNALS)('%s ends an idle service with exit code 0', async signal => {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  service.process.kill(signal)
  expect(await service.exited).toMatchObject({ code: 0, stderr: '' })
})

test('SIGTERM ends an idle service with exit code 0 however short SHUTDOWN_TIMEOUT is', async () => {
  const env = { SHUTDOWN_TIMEOUT: '1ms' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  service.process.kill('SIGTERM')
  expect((await service.exited).code).toBe(0)
})

test.each(SIGNALS)('%s lets the request in flight end, with 201 and exit code 0', async signal => {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  const post = await beginPost(service.port)
  service.process.kill(signal)
  await untilUnready(service.port)
  post.finish()
  const [, created] = await post.ended
  expect(created).toMatchObject({ status: 201, headers: { connection: 'close' } })
  expect(JSON.parse(created?.body ?? '')).toMatchObject({ id: 1 })
  expect(await service.exited).toMatchObject({ code: 0, stderr: '' })
})

test('GET /readyz answers 503 while a request holds the stop, to old and new connections', async () => {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  const keptAlive = sendRaw(service.port, get('/readyz'))
  expect(await keptAlive.answers(1)).toMatchObject([{ status: 200 }])
  // An unfinished head keeps the connection from being closed as idle.
  const head = get('/readyz')
  keptAlive.socket.write(head.slice(0, -2))
  const post = await beginPost(service.port)
  service.process.kill('SIGTERM')

  const newcomer = await untilUnready(service.port)
  keptAlive.socket.write(head.slice(-2))
  const [, late] = await keptAlive.ended
  for (const answer of [newcomer, late]) {
    expect(answer).toMatchObject({
      status: 503,
      headers: { connection: 'close', 'content-type': 'application/json; charset=utf-8' },
    })
    expect(JSON.parse(answer?.body ?? '')).toEqual({ status: expect.any(String) })
  }

  post.finish()
  expect((await post.ended)[1]).toMatchObject({ status: 201 })
  expect((await service.exited).code).toBe(0)
})

test('GET /users on connections made during the stop answers 503 with Retry-After', async () => {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  const post = await beginPost(service.port)
  service.process.kill('SIGTERM')
  const refused = await untilStatus(service.port, '/users', 503)
  expect(refused.headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'retry-after': expect.stringMatching(/^[1-9]\d*$/),
    'cache-control': 'no-store',
    'x-request-id': expect.any(String),
    connection: 'close',
  })
  expect(JSON.parse(refused.body)).toEqual({
    message: expect.any(String),
    resource: 'User',
    code: 503,
    status: false,
    reason: 'shutting_down',
  })
  for (let newcomer = 0; newcomer < 100; newcomer++) {
    expect(await sendRaw(service.port, get('/users')).ended).toMatchObject([{ status: 503 }])
  }
  post.finish()
  expect((await post.ended)[1]).toMatchObject({ status: 201 })
  expect((await service.exited).code).toBe(0)
})

test('SIGTERM is not delayed by idle connections, nor by connections that never sent a byte', async () => {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  const idle = [1, 2, 3].map(() => sendRaw(service.port, get('/livez')))
  const silent = [1, 2, 3].map(() => sendRaw(service.port, ''))
  await Promise.all(silent.map(({ socket }) => once(socket, 'connect')))
  await Promise.all(idle.map(exchange => exchange.answers(1)))
  service.process.kill('SIGTERM')
  expect((await service.exited).code).toBe(0)
  const ends = await Promise.all([...idle, ...silent].map(({ ended }) => ended))
  expect(ends.map(answers => answers.length)).toEqual([1, 1, 1, 0, 0, 0])
})

test('SIGTERM is not delayed by a connection made during the stop that never sends a byte', async () => {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  const post = await beginPost(service.port)
  service.process.kill('SIGTERM')
  await untilStatus(service.port, '/users', 503)
  const silent = sendRaw(service.port, '')
  await once(silent.socket, 'connect')
  post.finish()
  expect((await post.ended)[1]).toMatchObject({ status: 201 })
  expect((await service.exited).code).toBe(0)
  expect(await silent.ended).toEqual([])
})

test('SIGTERM ends with exit code 1 when a client does not finish its body in time', async () => {
  const env = { SHUTDOWN_TIMEOUT: '300ms' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  const post = await beginPost(service.port)
  service.process.kill('SIGTERM')
  expect((await service.exited).code).toBe(1)
  expect(await post.ended).toMatchObject([{ status: 100 }])
})

test.each([{}, { MANAGEMENT_PORT: '0' }])(
  'an uncaught exception ends the service with exit code 1 and one fatal line, with %o',
  async env => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'bug.cjs'), BUG)
    const nodeArgs = ['--require', join(cwd, 'bug.cjs')]
    const service = await spawnService({ cwd, nodeArgs, env })
    writeFileSync(join(cwd, 'boom'), '')
    const { code, stdout } = await service.exited
    expect(code).toBe(1)
    expect(linesOf(stdout).filter(({ level }) => level === 'fatal')).toEqual([
      expect.objectContaining({
        msg: 'crashed',
        err: expect.objectContaining({ message: 'boom' }),
      }),
    ])
  },
)

test('a second signal ends the service at once with exit code 1', async () => {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  const post = await beginPost(service.port)
  service.process.kill('SIGTERM')
  // In the first half second these do not count as a second signal.
  const repeat = setInterval(() => service.process.kill('SIGTERM'), 50)
  const { code } = await service.exited.finally(() => clearInterval(repeat))
  expect(code).toBe(1)
  expect(await post.ended).toMatchObject([{ status: 100 }])
})

test.each([
  ['SIGINT', 'SIGINT'],
  ['SIGINT', 'SIGTERM'],
  ['SIGTERM', 'SIGINT'],
] as const)('%s repeated as %s right away is one signal', async (first, echo) => {
  // Tried again if the machine let too much time pass between the two.
  while (!(await isOneSignal(first, echo)));
})

/** Whether the second signal came in time to be ignored, and was ignored. */
async function isOneSignal(first: NodeJS.Signals, echo: NodeJS.Signals): Promise<boolean> {
  const service = await spawnService({ cwd: temporaryFolder(), env: NO_HURRY })
  const post = await beginPost(service.port)
  const startedAt = performance.now()
  service.process.kill(first)
  await until(() => service.stdout().includes('"stopping"'), 1)
  service.process.kill(echo)
  const betweenMs = performance.now() - startedAt
  const isRight = await Promise.race([
    // This answer comes after both signals were handled.
    untilUnready(service.port).then(() => true),
    service.exited.then(() => false),
  ])
  if (!isRight && betweenMs > 200) return false
  post.finish()
  expect((await post.ended)[1]).toMatchObject({ status: 201 })
  expect((await service.exited).code).toBe(0)
  return true
}

test('a stop leaves the users in one file, where the next start finds them', async () => {
  const cwd = temporaryFolder()
  const first = await spawnService({ cwd, env: NO_HURRY })
  const created = await sendRaw(first.port, post(newUserBody(), 'close')).ended
  expect(created).toMatchObject([{ status: 201 }])
  expect(readdirSync(join(cwd, 'data'))).toContain('users.db-wal')
  first.process.kill('SIGTERM')
  expect((await first.exited).code).toBe(0)
  expect(readdirSync(join(cwd, 'data'))).toEqual(['users.db'])

  const second = await spawnService({ cwd })
  const [found] = await sendRaw(second.port, get('/users/1', 'close')).ended
  expect(found).toMatchObject({ status: 200, body: created[0]?.body })
})

test('kill -9 loses no user whose creation was answered', async () => {
  const cwd = temporaryFolder()
  const first = await spawnService({ cwd })
  const acknowledged: string[] = []
  const clients = Array.from({ length: 8 }, async () => {
    for (;;) {
      const [answer] = await sendRaw(first.port, post(newUserBody(), 'close')).ended
      if (answer === undefined) return
      expect(answer.status).toBe(201)
      acknowledged.push(answer.body)
      if (acknowledged.length === 100) first.process.kill('SIGKILL')
    }
  })
  await Promise.all(clients)
  expect(acknowledged.length).toBeGreaterThanOrEqual(100)

  const second = await spawnService({ cwd })
  const found = await Promise.all(
    acknowledged.map(async body => {
      const [answer] = await sendRaw(second.port, get(`/users/${idIn(body)}`, 'close')).ended
      return answer?.body
    }),
  )
  expect(found).toEqual(acknowledged)
})

test('SIGTERM during waves of requests loses none that was sent before, and cuts off none', async () => {
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd, env: NO_HURRY })
  const wave = (size: number) =>
    Array.from({ length: size }, () => sendRaw(service.port, post(newUserBody(), 'close')))

  const first = await Promise.all(wave(40).map(({ ended }) => ended))
  const keptAlive = Array.from({ length: 40 }, () => sendRaw(service.port, get('/livez')))
  await Promise.all(keptAlive.map(exchange => exchange.answers(1)))
  // While it sleeps, connections fill the system's backlog, and it sees the signal before them.
  service.process.kill('SIGSTOP')
  for (const { socket } of keptAlive) socket.write(post(newUserBody()))
  const early = wave(300)
  await Promise.all([...keptAlive, ...early].map(sent))
  service.process.kill('SIGTERM')
  service.process.kill('SIGCONT')

  const late: (readonly RawAnswer[])[] = []
  for (let anyAnswered = true; anyAnswered; ) {
    const exchanges = wave(40)
    const answered = await Promise.all(exchanges.map(({ ended }) => ended))
    for (const [index, { socket }] of exchanges.entries()) {
      if (answered[index]?.length === 0) expect(socket.bytesRead).toBe(0)
    }
    late.push(...answered)
    anyAnswered = answered.some(({ length }) => length > 0)
  }

  const before = [
    ...first,
    ...(await Promise.all(early.map(({ ended }) => ended))),
    ...(await Promise.all(keptAlive.map(async ({ ended }) => (await ended).slice(1)))),
  ]
  const lost = before.filter(([answer, ...more]) => answer?.status !== 201 || more.length > 0)
  expect(lost).toEqual([])
  for (const { status } of late.flat()) expect([201, 503]).toContain(status)
  expect((await service.exited).code).toBe(0)

  const acknowledged = [...before, ...late].flat().filter(({ status }) => status === 201)
  expect(idsStoredIn(join(cwd, 'data', 'users.db'))).toEqual(
    acknowledged.map(({ body }) => idIn(body)).sort((a, b) => a - b),
  )
})

function untilUnready(port: number): Promise<RawAnswer> {
  return untilStatus(port, '/readyz', 503)
}

/** Asks on new connections until an answer has this status. */
async function untilStatus(port: number, path: string, status: number): Promise<RawAnswer> {
  for (;;) {
    const [answer] = await sendRaw(port, get(path, 'close')).ended
    if (answer === undefined) throw new Error(`no answer to ${path}`)
    if (answer.status === status) return answer
  }
}

/** Resolves once the system has accepted all that was written. */
function sent({ socket }: RawExchange): Promise<void> {
  return new Promise(resolve => socket.write('', () => resolve()))
}

function get(path: string, connection = 'keep-alive'): string {
  return `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: ${connection}\r\n\r\n`
}

function post(body: object, connection = 'keep-alive'): string {
  const json = JSON.stringify(body)
  const head = [
    'POST /users HTTP/1.1',
    'Host: localhost',
    'Content-Type: application/json',
    `Content-Length: ${json.length}`,
    `Connection: ${connection}`,
  ]
  return `${head.join('\r\n')}\r\n\r\n${json}`
}

function idIn(body: string): number {
  return JSON.parse(body).id
}

function idsStoredIn(path: string): unknown[] {
  const database = new Database(path, { readonly: true })
  try {
    return database.prepare('SELECT id FROM users ORDER BY id').pluck().all()
  } finally {
    database.close()
  }
}
