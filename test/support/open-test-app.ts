import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import supertest from 'supertest'
import { onTestFinished } from 'vitest'
import { openManagementPort, stopPorts } from '../../src/cli/serve/ports.ts'
import { type Environment, loadConfig } from '../../src/config/settings.ts'
import type { OperatorError } from '../../src/errors.ts'
import type { BanControl } from '../../src/limits/kinds/ban-control.ts'
import type { LimitsReport } from '../../src/limits/rule-report.ts'
import type { Operations } from '../../src/ops/management/operations-router.ts'
import { createClocks } from '../../src/platform/clocks.ts'
import type { Timeouts } from '../../src/server/server.ts'
import { openService } from '../../src/service.ts'
import { addKey, type TestKey } from './api-keys.ts'
import { databaseIn } from './new-database.ts'
import { UNHURRIED } from './spawn-service.ts'

export interface TestAppOptions {
  /** Variables of the environment that differ from their defaults. */
  readonly env?: Environment
  /** Milliseconds since the epoch. Replaces all clocks of the service, unless the others are given too. */
  readonly now?: () => number
  /** The clock that does not jump, if it differs from `now`. */
  readonly monotonicNow?: () => number
  /** A limits file: an object for JSON, or the code of the default export of a module. */
  readonly limits?: object | string
  /** Bodies of creates: users that the service has when the test gets it. */
  readonly users?: readonly object[]
  /** API keys in its database, which it then requires of each request. */
  readonly keys?: readonly TestKey[]
  readonly timeouts?: Timeouts
}

export interface TestApp {
  readonly url: string
  readonly port: number
  /** Its DATABASE_URL; on SQLite a path. */
  readonly databaseUrl: string
  /** A supertest agent on the listening server. */
  readonly http: ReturnType<typeof supertest>
  /** The log so far, a parsed object for each line. */
  readonly logLines: Record<string, unknown>[]
  /** The same lines as they were written, without their ends. */
  readonly logText: readonly string[]
  /** Of the management port; empty without one. */
  readonly managementUrl: string
  readonly limitsPath: string
  /** The value of `Authorization` for each key, in the order of the options. */
  readonly bearers: readonly string[]
  readonly reloadLimits: Operations['reloadLimits']
  /** What the limits have done. */
  limitsReport(): LimitsReport
  /** What operators do with bans. */
  bans(): BanControl
  stop(timeoutMs?: number): Promise<boolean>
}

/** Takes what is to be called at the end of a test, or of several. */
export type AtEnd = (end: () => void | Promise<void>) => void

/**
 * The real service with a free port and a new database, in this process. It ends with the test, or when what `atEnd` is given is
 * called, the last first.
 */
export async function openTestApp(
  { env = {}, now, monotonicNow = now, limits, users = [], keys, timeouts }: TestAppOptions = {},
  atEnd: AtEnd = onTestFinished,
): Promise<TestApp> {
  const folder = temporaryFolder(atEnd)
  const databaseUrl = env.DATABASE_URL ?? (await databaseIn(folder, undefined, atEnd))
  const isModule = typeof limits === 'string'
  const limitsPath = join(folder, isModule ? 'limits.mjs' : 'limits.json')
  if (limits !== undefined) {
    writeFileSync(limitsPath, isModule ? `export default ${limits}` : JSON.stringify(limits))
  }
  const bearers: string[] = []
  for (const key of keys ?? []) bearers.push(`Bearer ${await addKey(databaseUrl, key)}`)
  const environment = {
    ...UNHURRIED,
    // Most tests that send a Host are not about which hosts are allowed.
    ALLOWED_HOSTS: '*',
    DATABASE_URL: databaseUrl,
    LIMITS_FILE: limits === undefined ? '' : limitsPath,
    ...(keys && { API_KEYS: 'required' }),
    ...env,
  }
  const config = loadConfig(environment, join(folder, '.env'))
  const logLines: Record<string, unknown>[] = []
  const logText: string[] = []
  const write = (line: string) => {
    logText.push(line.replace(/\n$/, ''))
    logLines.push(JSON.parse(line))
  }
  const log = pino({ level: 'trace', base: null }, { write })
  const service = await openService({
    config,
    log,
    clocks: createClocks({
      ...(now && { now }),
      ...(monotonicNow && { monotonicNow, uptimeNow: monotonicNow, serverNow: monotonicNow }),
    }),
    ...(timeouts && { timeouts }),
  })
  const management = await openManagementPort({ config, log, operations: service.operations })
  const { port } = await service.server.listen({ host: '127.0.0.1', port: 0 })
  management?.logAddress()
  const url = `http://127.0.0.1:${port}`
  let stopped: Promise<boolean> | undefined
  const stop = (timeoutMs = 5000) => {
    stopped ??= stopPorts(service.server, management, timeoutMs).then(async answeredAll => {
      await service.close()
      return answeredAll
    })
    return stopped
  }
  atEnd(async () => {
    await stop(0)
  })
  const { reload: reloadLimits, bans } = service.limits
  const limitsReport = () => {
    const report = service.limits.report()
    if (report === undefined) throw new Error('the service has no limits')
    return report
  }
  const http = supertest(url)
  for (const body of users) await http.post('/users').send(body).expect(201)
  const managementUrl = findManagementUrl(logLines)
  return {
    ...{ url, port, databaseUrl, managementUrl, limitsPath, http, logLines, logText },
    ...{ bearers, reloadLimits, limitsReport, stop },
    bans: () => bans,
  }
}

/** From the log of a start. */
export function findManagementUrl(lines: readonly Record<string, unknown>[]): string {
  return String(lines.find(({ msg }) => msg === 'management port listens')?.url ?? '')
}

/** A folder that is removed after the test, or when what `atEnd` is given is called. */
export function temporaryFolder(atEnd: AtEnd = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The lines that tell an operator why the service does not start, in this process. None if it does. */
export function problemsOfStart(options: TestAppOptions): Promise<readonly string[]> {
  return openTestApp(options).then(
    () => [],
    (error: OperatorError) => error.problems,
  )
}
