import {
  appendFileSync,
  closeSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import supertest from 'supertest'
import { afterAll, onTestFinished } from 'vitest'
import { byEngine } from './engine.ts'
import { onAdvance } from './fake-clock.ts'
import { lastingDatabaseIn } from './new-database.ts'
import {
  createUsers,
  findManagementUrl,
  type TestApp,
  type TestAppOptions,
} from './open-test-app.ts'
import { type SpawnedService, spawnService } from './spawn-service.ts'
import { followLog, type SpawnedLog } from './spawned-log.ts'
import { type SpawnedRun, skipIfSpawned, spawnedRun } from './spawned-run.ts'
import { executeSql, type SqlRow, selectRows, storedTables } from './sql.ts'
import { until } from './until.ts'

interface Spawned {
  readonly service: SpawnedService
  readonly log: SpawnedLog
  readonly folder: string
  readonly databaseUrl: string
  /** Only that of the service, not one that the test has made. */
  dropDatabase(): Promise<void>
  readonly managementUrl: string
  /** All that its database had when the first test got it. */
  readonly content: Content
  /** What it was started with. */
  readonly key: string
}

/** A service that its test has left. The next test that wants the same takes it, if its database can be made what it was. */
let idle: Spawned | undefined

if (spawnedRun !== undefined) afterAll(() => idle && end(idle))

/** The real service in processes of its own, with a free port and a new database. */
export async function openSpawnedApp(run: SpawnedRun, options: TestAppOptions): Promise<TestApp> {
  if (options.firstProcess !== undefined) skipIfSpawned('the test has workers of its own')
  if (options.timeouts !== undefined) skipIfSpawned('the test sets timeouts of connections')
  if (options.env?.DATABASE_URL === ':memory:') skipIfSpawned(NOT_IN_MEMORY)
  const spawned = (await takeIdle(options)) ?? (await start(run, options))
  const { service, log, folder, databaseUrl, managementUrl } = spawned
  let isStopped = false
  onTestFinished(async ({ task }) => {
    if (task.result?.state !== 'fail' && !isStopped && isShareable(options)) await leave(spawned)
    else await end(spawned)
  })
  return {
    url: service.url,
    port: service.port,
    databaseUrl,
    managementUrl,
    limitsPath: join(folder, 'limits.json'),
    http: supertest(service.url),
    logLines: log.lines,
    logged: log.complete,
    reloadLimits: () => reloadLimits(spawned),
    bans: () => skipIfSpawned('the test asks the limiter itself') as never,
    limitsReport: () => skipIfSpawned('the test asks the limiter itself') as never,
    stop: async timeoutMs => {
      if (timeoutMs !== undefined) skipIfSpawned('the test chooses how long a stop may take')
      isStopped = true
      service.process.kill('SIGTERM')
      const { code } = await service.exited
      await log.complete()
      return code === 0
    },
  }
}

function hasLimits({ limits, env }: TestAppOptions): boolean {
  return limits !== undefined || env?.LIMITS_FILE !== undefined
}

/** Whether a service for one test does for another one with the same environment and users. */
function isShareable(options: TestAppOptions): boolean {
  const { env = {}, now, monotonicNow } = options
  // A management port would tell of the tests before.
  const isPrivate = env.DATABASE_URL !== undefined || env.MANAGEMENT_PORT !== undefined
  const hasClocks = now !== undefined || monotonicNow !== undefined
  return !isPrivate && !hasClocks && !hasLimits(options)
}

const NOT_IN_MEMORY = 'several processes cannot share a database in memory'

function keyOf({ env = {}, users = [] }: TestAppOptions): string {
  return JSON.stringify({ env, users })
}

async function start(run: SpawnedRun, options: TestAppOptions): Promise<Spawned> {
  const { env = {}, limits, users = [], now, monotonicNow = now } = options
  const folder = mkdtempSync(join(tmpdir(), 'user-records-'))
  const { url: databaseUrl, drop: dropDatabase } =
    env.DATABASE_URL === undefined
      ? await lastingDatabaseIn(folder)
      : { url: env.DATABASE_URL, drop: async () => {} }
  const limitsPath = join(folder, 'limits.json')
  if (limits !== undefined) writeFileSync(limitsPath, JSON.stringify(limits))
  const isRedisCounting = hasLimits(options) && run.env.CACHE_STORE === 'redis'
  const onMove = () => isRedisCounting && skipIfSpawned('Redis measures time by its own clock')
  if (now !== undefined) {
    shareClocks(join(folder, 'clocks'), { now, monotonicNow: monotonicNow ?? now, onMove })
  }
  const settings = {
    LOG_LEVEL: 'trace',
    SHUTDOWN_TIMEOUT: '5s',
    DATABASE_URL: databaseUrl,
    ...(limits && { LIMITS_FILE: limitsPath }),
    ...Object.fromEntries(Object.entries(env).map(([name, text]) => [name, text ?? ''])),
  }
  const service = await spawnService({
    ...{ cwd: folder, main: run.main, args: ['serve'], env: settings },
    outlivesTest: true,
  }).catch(async error => {
    await dropDatabase()
    throw error
  })
  appendFileSync(run.processesPath, `${service.process.pid}\n`)
  const log = followLog(service, Number(run.env.WORKERS))
  await createUsers(supertest(service.url), users)
  const content = await contentOf(databaseUrl)
  // To complete the log takes requests, which the metrics would count.
  if (env.MANAGEMENT_PORT !== undefined) await until(() => findManagementUrl(log.lines))
  return {
    ...{ service, log, folder, databaseUrl, dropDatabase, content, key: keyOf(options) },
    managementUrl: findManagementUrl(log.lines),
  }
}

/** Leaves it to the next test, in place of the one that was left before. */
async function leave(spawned: Spawned): Promise<void> {
  const before = idle
  idle = spawned
  if (before !== undefined) await end(before)
}

async function takeIdle(options: TestAppOptions): Promise<Spawned | undefined> {
  const left = idle
  if (left === undefined || !isShareable(options) || left.key !== keyOf(options)) return undefined
  idle = undefined
  if (!((await isUnused(left)) || (await restore(left)))) {
    await end(left)
    return undefined
  }
  await left.log.complete()
  left.log.lines.length = 0
  return left
}

async function isUnused({ service, databaseUrl, content }: Spawned): Promise<boolean> {
  if (service.process.exitCode !== null) return false
  const now = await contentOf(databaseUrl).catch(() => undefined)
  return isDeepStrictEqual(now, content)
}

/** The most users that are deleted one by one for the next test. With more of them a new service takes less time. */
const MAX_DELETED = 20

/** Deletes the users and keys that a test has left in a database that had none. Returns whether all is as it was. */
async function restore(spawned: Spawned): Promise<boolean> {
  const { service, databaseUrl, content } = spawned
  const { users = [] } = content.tables
  const created = await selectRows(databaseUrl, 'SELECT id FROM users').catch(() => undefined)
  if (created === undefined || users.length > 0 || created.length > MAX_DELETED) return false
  const http = supertest(service.url)
  for (const { id } of created) await http.delete(`/users/${id}`).catch(() => {})
  await executeSql(databaseUrl, byEngine(FORGET))
  return isUnused(spawned)
}

/** The first id is 1 again, and no key is known. */
const FORGET = {
  sqlite: `DELETE FROM idempotency_keys; DELETE FROM sqlite_sequence WHERE name = 'users'`,
  postgres: `DELETE FROM idempotency_keys; SELECT setval('users_id_seq', 1, false)`,
}

interface Content {
  readonly tables: Readonly<Record<string, SqlRow[]>>
  readonly sequences: SqlRow[]
}

/** What a test can see of a database: not how often it was changed, and not the index that is made of its users. */
async function contentOf(databaseUrl: string): Promise<Content> {
  const tables = Object.entries(await storedTables(databaseUrl))
  const sequences = byEngine({ sqlite: 'sqlite_sequence', postgres: 'pg_sequences' })
  return {
    tables: Object.fromEntries(
      tables.filter(([name]) => name !== 'users_summary' && !/^users_words_(?!state)/.test(name)),
    ),
    sequences: await selectRows(databaseUrl, `SELECT * FROM ${sequences}`),
  }
}

async function end({ service, folder, dropDatabase }: Spawned): Promise<void> {
  service.process.kill('SIGKILL')
  await service.exited
  await dropDatabase()
  rmSync(folder, { recursive: true, force: true })
}

/** What the service logs after it has read its limits again. */
const RELOADED = /^(?:limits reloaded|limits file is invalid|reload ignored)/

async function reloadLimits({ service, log }: Spawned): Promise<void> {
  await log.complete()
  const known = log.lines.length
  service.process.kill('SIGHUP')
  await until(() => log.lines.slice(known).some(({ msg }) => RELOADED.test(String(msg))))
  await log.complete()
}

interface SharedClocks {
  now(): number
  monotonicNow(): number
  /** Called when the test moves one of them. */
  onMove(): void
}

/** Writes the times of fake clocks into a file for the service, now and each time when the test moves them. */
function shareClocks(path: string, { now, monotonicNow, onMove }: SharedClocks): void {
  const file = openSync(path, 'w')
  onTestFinished(() => closeSync(file))
  const write = () => writeSync(file, Float64Array.of(now(), monotonicNow()), 0, 16, 0)
  write()
  for (const clock of new Set([now, monotonicNow])) {
    const isKnown = onAdvance(clock, () => {
      onMove()
      write()
    })
    if (!isKnown) skipIfSpawned('the test has a clock of its own kind')
  }
}
