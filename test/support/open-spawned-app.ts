import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import pino from 'pino'
import supertest from 'supertest'
import { onTestFinished } from 'vitest'
import { onAdvance } from './fake-clock.ts'
import { databaseIn } from './new-database.ts'
import type { TestApp, TestAppOptions } from './open-test-app.ts'
import { type SpawnedService, spawnService } from './spawn-service.ts'
import { type SpawnedRun, skipIfSpawned } from './spawned-run.ts'
import { until } from './until.ts'

type LogLine = Record<string, unknown>

/** The real service in processes of its own, with a free port and a new database. It ends with the test. */
export async function openSpawnedApp(
  { main, env: envOfRun }: SpawnedRun,
  {
    env = {},
    now,
    monotonicNow = now,
    limits,
    timeouts,
    folder,
  }: TestAppOptions & { folder: string },
): Promise<TestApp> {
  if (timeouts !== undefined) skipIfSpawned('the test sets timeouts of connections')
  if (now !== undefined) shareClocks(join(folder, 'clocks'), now, monotonicNow ?? now)
  const databaseUrl = env.DATABASE_URL ?? (await databaseIn(folder))
  const limitsPath = join(folder, 'limits.json')
  if (limits !== undefined) writeFileSync(limitsPath, JSON.stringify(limits))
  const settings = {
    ...envOfRun,
    LOG_LEVEL: 'trace',
    SHUTDOWN_TIMEOUT: '5s',
    DATABASE_URL: databaseUrl,
    LIMITS_FILE: limits === undefined ? '' : limitsPath,
    ...definedOf(env),
  }
  const service = await spawnService({ cwd: folder, main, args: ['serve'], env: settings })
  const { url, port, exited } = service
  const log = followLog(service, Number(envOfRun.WORKERS ?? 1))
  onTestFinished(async () => {
    service.process.kill('SIGKILL')
    await exited
  })
  return {
    url,
    port,
    databaseUrl,
    limitsPath,
    http: supertest(url),
    logLines: log.lines,
    logged: log.complete,
    reloadLimits: async () => {
      await log.complete()
      const before = log.lines.length
      service.process.kill('SIGHUP')
      await until(() => log.lines.slice(before).some(({ msg }) => RELOADED.test(String(msg))))
      await log.complete()
    },
    stop: async timeoutMs => {
      if (timeoutMs !== undefined) skipIfSpawned('the test chooses how long a stop may take')
      service.process.kill('SIGTERM')
      const { code } = await exited
      await log.complete()
      return code === 0
    },
  }
}

/** What the service logs after it has read its limits again. */
const RELOADED = /^(?:limits reloaded|limits file is invalid|reload ignored)/

/** What only a service in processes of its own logs. */
const OF_PROCESSES = ['starting', 'listening', 'stopping', 'stopped']

function definedOf(env: NonNullable<TestAppOptions['env']>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )
}

/** Writes the times of fake clocks into a file for the service, now and each time when the test moves them. */
function shareClocks(path: string, now: () => number, monotonicNow: () => number): void {
  const file = openSync(path, 'w')
  onTestFinished(() => closeSync(file))
  const write = () => writeSync(file, Float64Array.of(now(), monotonicNow()), 0, 16, 0)
  write()
  for (const clock of new Set([now, monotonicNow])) {
    if (!onAdvance(clock, write)) skipIfSpawned('the test has a clock of its own kind')
  }
}

interface FollowedLog {
  readonly lines: LogLine[]
  /** Resolves once `lines` has everything that all workers have logged so far. */
  complete(): Promise<void>
}

/** The prefix of the ids of requests that show how far the log has come. They are not among the lines. */
const MARK = 'log-mark-'

function followLog(
  { process, port, stdout, exited }: SpawnedService,
  workers: number,
): FollowedLog {
  const lines: LogLine[] = []
  const marks = new Map<string, unknown>()
  let isOver = false
  let rest = ''
  let serial = 0

  function read(text: string): void {
    const [...complete] = `${rest}${text}`.split('\n')
    rest = complete.pop() ?? ''
    for (const line of complete.map(parseLine)) {
      const { worker, ...shown } = line
      const id = String(line.requestId)
      if (id.startsWith(MARK)) marks.set(id, worker)
      else if (!OF_PROCESSES.includes(String(line.msg))) lines.push(shown)
    }
  }

  read(stdout())
  process.stdout?.on('data', chunk => read(String(chunk)))
  exited.then(() => {
    isOver = true
  })

  /** Asks for marks until each worker has written one: what it has logged before is in the log then. */
  async function complete(): Promise<void> {
    const seen = new Set<unknown>()
    while (!isOver && seen.size < workers && !seen.has(undefined)) {
      const ids = Array.from({ length: 2 * workers }, () => `${MARK}${++serial}`)
      await Promise.all(ids.map(id => sendMark(port, id)))
      await until(() => isOver || ids.every(id => marks.has(id)))
      for (const id of ids) seen.add(marks.get(id))
    }
    // Each worker writes what it has logged from time to time.
    lines.sort((one, other) => Number(one.time) - Number(other.time))
  }

  return { lines, complete }
}

/** As the logger inside a test process writes it: with the numbers of levels and times. */
function parseLine(text: string): LogLine {
  const line = JSON.parse(text)
  return { ...line, level: pino.levels.values[line.level], time: Date.parse(line.time) }
}

/** On a connection of its own, so that any worker may answer. */
function sendMark(port: number, id: string): Promise<void> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {}).on('close', () => resolve())
    socket.resume()
    socket.end(
      `GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n`,
    )
  })
}
