import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createRandom, inForm, quantile, report, SEED } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'

const STOPS = inForm({ short: 3, long: 30 })
const CLIENTS = 32

/** Long enough that no stop ends because the time ran out. */
const env = { SHUTDOWN_TIMEOUT: '60s' }

interface Sent {
  readonly email: string
  /** Whether the system had taken the whole of it before the signal. */
  isBeforeStop: boolean
  isWritten: boolean
  status: number | undefined
}

/** Creates one user after another on one connection until it is closed. */
async function createUntilClosed(port: number, isStopping: () => boolean): Promise<Sent[]> {
  const socket = connect(port, '127.0.0.1')
  const all: Sent[] = []
  let received = ''

  function send(): void {
    const { user } = newUserBody()
    const body = JSON.stringify({ user })
    const sent: Sent = {
      email: String(user.email),
      isBeforeStop: false,
      isWritten: false,
      status: undefined,
    }
    all.push(sent)
    const head = `POST /users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
    socket.write(head + body, error => {
      sent.isWritten = error === undefined || error === null
      sent.isBeforeStop = sent.isWritten && !isStopping()
    })
  }

  socket.on('error', () => {})
  socket.on('data', data => {
    received += data
    const end = received.indexOf('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(received)?.[1])
    if (end < 0 || received.length < end + 4 + length) return
    const newest = all.at(-1) as Sent
    newest.status = Number(received.slice(9, 12))
    received = ''
    if (!socket.writableEnded) send()
  })
  send()
  await new Promise(resolve => socket.once('close', resolve))
  expect(received).toBe('')
  return all
}

async function stopUnderLoad(cwd: string, afterMs: number) {
  const service = await spawnService({ cwd, env })
  let isStopping = false
  const clients = Array.from({ length: CLIENTS }, () =>
    createUntilClosed(service.port, () => isStopping),
  )
  await sleep(afterMs)
  isStopping = true
  const signalledAt = performance.now()
  service.process.kill('SIGTERM')
  const { code, stderr } = await service.exited
  const stopMs = performance.now() - signalledAt
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return { sent: (await Promise.all(clients)).flat(), stopMs }
}

function storedEmails(cwd: string): Set<unknown> {
  const database = new Database(join(cwd, 'data', 'users.db'), { readonly: true })
  const emails = database.prepare('SELECT email FROM users').pluck().all()
  database.close()
  return new Set(emails)
}

test(`SIGTERM under load answers all that was sent before (seed ${SEED})`, async () => {
  const cwd = temporaryFolder()
  const random = createRandom()
  const stops: number[] = []
  let answered = 0
  for (let stop = 0; stop < STOPS; stop++) {
    const { sent, stopMs } = await stopUnderLoad(cwd, 50 + random() * 400)
    stops.push(stopMs)
    const stored = storedEmails(cwd)
    const lost = sent.filter(({ isBeforeStop, status }) => isBeforeStop && status !== 201)
    expect(lost).toEqual([])
    for (const { status, email } of sent) {
      if (status === 201) expect(stored.has(email)).toBe(true)
      else expect([undefined, 503]).toContain(status)
    }
    answered += sent.filter(({ status }) => status === 201).length
  }
  expect(answered).toBeGreaterThan(STOPS * CLIENTS)
  report('stopped under load', {
    stops: STOPS,
    clients: CLIENTS,
    answered,
    slowestStopMs: Math.round(quantile(stops, 1)),
  })
})

test('SIGTERM ends an idle service, and one whose clients never finish by its timeout', async () => {
  const ends: Record<string, number> = {}
  const kinds: Readonly<Record<string, (service: SpawnedService) => Promise<void>>> = {
    idle: async () => {},
    'never sent a byte': service => open(service, ''),
    'never finishes its headers': service => open(service, 'GET /users HTTP/1.1\r\nHost: x\r\n'),
    'never finishes its body': service =>
      open(
        service,
        'POST /users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
      ),
  }
  for (const [kind, prepare] of Object.entries(kinds)) {
    const service = await spawnService({ cwd: temporaryFolder(), env: { SHUTDOWN_TIMEOUT: '1s' } })
    await prepare(service)
    const signalledAt = performance.now()
    service.process.kill('SIGTERM')
    const { code } = await service.exited
    ends[kind] = Math.round(performance.now() - signalledAt)
    expect([kind, code]).toEqual([kind, kind.endsWith('body') || kind.endsWith('headers') ? 1 : 0])
  }
  report('stop with SHUTDOWN_TIMEOUT=1s, ms', ends)
})

async function open({ port }: SpawnedService, bytes: string): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(bytes)
  await sleep(100)
}
