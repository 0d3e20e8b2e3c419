import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { inForm, isLong, report } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { openPipe } from '../support/pipe.ts'
import { residentMb } from '../support/process-memory.ts'
import { sendRaw } from '../support/raw-http.ts'
import { MAIN } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

/** Enough lines to fill a pipe; in the long form also the buffer of the service. */
const REQUESTS = inForm({ short: 300, long: 60_000 })

const REQUESTS_AT_ONCE = 100

/** Part of a line of the log. */
const USER_AGENT = 'x'.repeat(300)

/** The built service with its log on `stdout`, which this function closes in the test. */
function startWithLog(stdout: number, port = 0) {
  const child = spawn(process.execPath, [MAIN], {
    cwd: temporaryFolder(),
    env: { PATH: process.env.PATH, PORT: `${port}` },
    stdio: ['ignore', stdout, 'pipe'],
  })
  closeSync(stdout)
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  return { child, exited: once(child, 'exit').then(([code]) => code as number | null) }
}

async function startWithPipe() {
  const pipe = openPipe()
  const service = startWithLog(pipe.writeEnd)
  const [, port] = await pipe.readUntil(/"port":(\d+)/)
  return { ...service, pipe, port: Number(port) }
}

/** Milliseconds of the slowest batch. */
async function askMany(port: number): Promise<number> {
  const request = `GET /livez HTTP/1.1\r\nHost: x\r\nUser-Agent: ${USER_AGENT}\r\n\r\n`
  let slowestMs = 0
  for (let asked = 0; asked < REQUESTS; asked += REQUESTS_AT_ONCE) {
    const startedAt = performance.now()
    const exchange = sendRaw(port, request.repeat(REQUESTS_AT_ONCE))
    const answers = await exchange.answers(REQUESTS_AT_ONCE)
    exchange.socket.destroy()
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    slowestMs = Math.max(slowestMs, performance.now() - startedAt)
  }
  return Math.round(slowestMs)
}

async function stop({ child, exited }: ReturnType<typeof startWithLog>) {
  const startedAt = performance.now()
  child.kill('SIGTERM')
  const code = await exited
  return { code, stopMs: Math.round(performance.now() - startedAt) }
}

test('a reader of the log that stalls delays neither requests nor the stop', async () => {
  const service = await startWithPipe()
  const slowestMs = await askMany(service.port)
  const rssMb = residentMb(service.child.pid)
  const { code, stopMs } = await stop(service)
  report('a reader of the log that stalls', { requests: REQUESTS, slowestMs, rssMb, stopMs })
  expect(code).toBe(0)
})

test.runIf(isLong)(
  'a reader of the log that reads again finds whole lines, and also new ones',
  async () => {
    const { child, exited, pipe, port } = await startWithPipe()
    await askMany(port)
    let log = ''
    const reading = setInterval(() => {
      log += pipe.readNow()
    }, 1)
    onTestFinished(() => clearInterval(reading))
    const hasCaughtUp = async () => {
      await ask({ url: `http://127.0.0.1:${port}` }, 'GET /livez', undefined, {
        'User-Agent': 'new',
      })
      return log.includes('"userAgent":"new"')
    }
    await until(hasCaughtUp)
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
    log += pipe.readNow()
    const lines = log.trimEnd().split('\n')
    expect(lines.map(line => JSON.parse(line)).at(-1).msg).toBe('stopped')
  },
)

test.runIf(isLong)(
  'a reader of the log that is gone delays neither requests nor the stop',
  async () => {
    const service = await startWithPipe()
    service.pipe.closeReader()
    const slowestMs = await askMany(service.port)
    const { code, stopMs } = await stop(service)
    report('a reader of the log that is gone', { requests: REQUESTS, slowestMs, stopMs })
    expect(code).toBe(0)
  },
)

test('a log on a full disk delays neither requests nor the stop', async () => {
  const port = await freePort()
  const service = startWithLog(openSync('/dev/full', 'a'), port)
  const isUp = () => ask({ url: `http://127.0.0.1:${port}` }, 'GET /livez').catch(() => undefined)
  await until(isUp)
  const slowestMs = await askMany(port)
  const { code, stopMs } = await stop(service)
  report('a log on a full disk', { requests: REQUESTS, slowestMs, stopMs })
  expect(code).toBe(0)
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
