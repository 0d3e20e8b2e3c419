import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import { createRandom, inForm, isLong, quantile, report, SEED } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const STOPS = inForm({ short: 3, long: 30 })
const CLIENTS = 32

/** So long that no stop ends by its timeout. */
const env = { SHUTDOWN_TIMEOUT: '10 minutes' }

interface Sent {
  readonly email: string
  /** Whether the system had accepted the whole request before the signal. */
  isBeforeStop: boolean
  isWritten: boolean
  status: number | undefined
}

/** Creates users, one after another, on one connection until it is closed. */
async function createUntilClosed(options: {
  readonly port: number
  readonly isStopping: () => boolean
  readonly onAnswer: () => void
}): Promise<Sent[]> {
  const { port, isStopping, onAnswer } = options
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
    onAnswer()
    received = ''
    if (!socket.writableEnded) send()
  })
  send()
  await new Promise(resolve => socket.once('close', resolve))
  expect(received).toBe('')
  return all
}

async function stopUnderLoad(cwd: string, afterAnswers: number) {
  const service = await spawnService({ cwd, env })
  let isStopping = false
  let answers = 0
  const onAnswer = () => {
    answers++
  }
  const clients = Array.from({ length: CLIENTS }, () =>
    createUntilClosed({ port: service.port, isStopping: () => isStopping, onAnswer }),
  )
  await until(() => answers >= afterAnswers, 1)
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

test(`SIGTERM under load: all requests sent before are answered (seed ${SEED})`, async () => {
  const cwd = temporaryFolder()
  const random = createRandom()
  const stops: number[] = []
  let answered = 0
  for (let stop = 0; stop < STOPS; stop++) {
    const { sent, stopMs } = await stopUnderLoad(cwd, Math.ceil(CLIENTS * (1 + random() * 30)))
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
  expect(answered).toBeGreaterThanOrEqual(STOPS * CLIENTS)
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
    const isHeldUp = kind.endsWith('body') || kind.endsWith('headers')
    // The timeout cuts off a client that delays the stop. Without such a client the stop ends earlier.
    const timeout = { SHUTDOWN_TIMEOUT: isHeldUp || isLong ? '1s' : '10 minutes' }
    const service = await spawnService({ cwd: temporaryFolder(), env: timeout })
    await prepare(service)
    const signalledAt = performance.now()
    service.process.kill('SIGTERM')
    const { code } = await service.exited
    ends[kind] = Math.round(performance.now() - signalledAt)
    expect([kind, code]).toEqual([kind, isHeldUp ? 1 : 0])
  }
  report('stop with SHUTDOWN_TIMEOUT=1s, ms', ends)
})

/** Resolves once the service has read the bytes: it has when it answers a later client. */
async function open({ port, url }: SpawnedService, bytes: string): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(bytes)
  for (let count = 0; count < 2; count++) await (await fetch(`${url}/livez`)).arrayBuffer()
}
