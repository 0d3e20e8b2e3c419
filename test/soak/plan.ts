import { setTimeout as sleep } from 'node:timers/promises'
import { queryPostgres } from '../support/postgres-client.ts'
import { until } from '../support/until.ts'
import { importUsers } from './imports.ts'
import { sampleUsage, type UsageSample } from './observe.ts'
import { LATER_BLOCKED_AGENT, type RULES } from './rules.ts'
import type { Service } from './service.ts'
import type { TrafficParts } from './traffic.ts'
import { walk } from './walk.ts'

/** After a fault, requests that met it may still be answered. */
const GRACE_MS = 5000

const ROWS = 2000

/** Enough that the failover comes in the middle. */
const FAILOVER_ROWS = 30_000

const REDIS_OUTAGE_MS = 5000

/** The log lines of how many seconds a kill may take with it. */
const LOSS_SECONDS = 2

export interface PlanResults {
  /** What each step did, for the report. */
  readonly results: { readonly at: number; readonly step: string; readonly result: string }[]
  readonly samples: UsageSample[]
}

interface PlanOptions extends TrafficParts {
  readonly minutes: number
  readonly signal: AbortSignal
}

/** Runs the planned steps at their moments, beside the load. */
export async function runPlan(options: PlanOptions, results: PlanResults): Promise<void> {
  const { minutes, signal, problems } = options
  const start = Date.now()
  for (const [at, step, run] of createSteps(options, results)) {
    await sleep(Math.max(0, start + at * minutes * 60_000 - Date.now()), undefined, { signal })
    const begun = Date.now()
    const result = await run().catch(error => {
      problems.note(`the step ${step}`, String(error?.stack ?? error))
      return `**failed**: ${error}`
    })
    results.results.push({ at: begun - start, step, result })
    console.error(`${seconds(begun - start)} ${step}: ${result}`)
  }
  await sleep(Math.max(0, start + minutes * 60_000 - Date.now()), undefined, { signal })
}

/** Steps with their moments, as parts of the whole time. Each says what it did. */
function createSteps(
  parts: TrafficParts,
  { samples }: PlanResults,
): readonly [number, string, () => Promise<string>][] {
  const { site, client, windows, problems } = parts
  const { primary, standby, redis } = site
  const [a, b] = site.services
  let databaseUrl = primary.url()

  /** Asks each service until what it shows is as wanted. */
  async function untilEach(
    isAsWanted: (response: Response) => Promise<boolean> | boolean,
    path: string,
  ) {
    for (const { managementUrl } of site.services) {
      await until(() => fetch(`${managementUrl}${path}`).then(isAsWanted, () => false), 100)
    }
  }

  const untilReady = () => untilEach(({ status }) => status === 200, '/readyz')

  async function stopRedis(): Promise<string> {
    const end = windows.open('redis')
    await redis.stop()
    await sleep(REDIS_OUTAGE_MS)
    await redis.start()
    await untilEach(
      async response => !(await response.text()).includes('local'),
      '/readyz?verbose=true',
    )
    await sleep(GRACE_MS)
    end()
    return `away for ${REDIS_OUTAGE_MS / 1000} s; both services use it again`
  }

  async function failOver(): Promise<string> {
    const end = windows.open('database')
    const importing = importUsers(parts, FAILOVER_ROWS)
    const imported = await until(async () => {
      const [row] = await queryPostgres(
        primary.url(),
        'SELECT record_count AS count FROM imports WHERE record_count > 0 AND NOT is_finished',
      )
      return row?.count
    })
    const from = Date.now()
    await primary.kill()
    await untilEach(({ status }) => status !== 200, '/readyz')
    await sleep(2000)
    await standby.promote()
    databaseUrl = standby.url()
    const promotedAt = Date.now()
    await untilReady()
    const readyAt = Date.now()
    const attempts = await importing
    await sleep(GRACE_MS)
    end()
    return `primary killed, standby promoted ${seconds(promotedAt - from)} later; both services ready ${seconds(readyAt - promotedAt)} after that; an import of ${FAILOVER_ROWS} users had done ${imported} and was continued ${attempts} times`
  }

  async function restart(service: Service, signal: 'SIGTERM' | 'SIGKILL'): Promise<string> {
    const { name } = service
    const life = service.life()
    const end = windows.open(signal === 'SIGTERM' ? 'restart' : 'kill', name)
    const from = Date.now()
    const code = await service.stop(signal)
    const stoppedAt = Date.now()
    if (signal === 'SIGKILL') {
      const first = Math.floor(from / 1000) - LOSS_SECONDS
      for (let second = first; second <= Math.floor(stoppedAt / 1000); second++) {
        life.maxLost += life.perSecond.get(String(second)) ?? 0
      }
    } else if (code !== 0) problems.note('exit code after SIGTERM', `${name}: ${code}`)
    await service.start()
    await untilReady()
    const readyAt = Date.now()
    await sleep(GRACE_MS)
    end()
    return `${name}: exit code ${code} after ${seconds(stoppedAt - from)}, ready ${seconds(readyAt - stoppedAt)} later`
  }

  async function reload(version: keyof typeof RULES): Promise<string> {
    site.writeRules(version)
    for (const service of site.services) service.reload()
    const wanted = version === 'second' ? 403 : 200
    for (const service of site.services) {
      await until(async () => {
        const reply = await client.ask({
          ...{ method: 'GET', path: '/users?per_page=1', route: '/users', service },
          headers: { 'User-Agent': LATER_BLOCKED_AGENT },
        })
        return reply.kind === 'answer' && reply.status === wanted
      })
    }
    return `SIGHUP, ${version} rules in force in both services`
  }

  async function revoke(): Promise<string> {
    const end = windows.open('key is being revoked')
    const { code } = await site.command('keys', 'revoke', 'revoked')
    if (code !== 0) problems.note('keys revoke', `${code}`)
    await sleep(GRACE_MS)
    end()
    windows.open('revoked key')
    return 'one of four keys'
  }

  const sample = (label: string) => async () => {
    samples.push(await sampleUsage(site, label, databaseUrl))
    return label
  }

  const doWalk = async () => `${await walk(parts)} users by cursors`
  const doImport = async () => `${ROWS} users, continued ${await importUsers(parts, ROWS)} times`

  return [
    [0.05, 'import', doImport],
    [0.1, 'sample', sample('10 %')],
    [0.12, 'reload', () => reload('second')],
    [0.15, 'Redis stopped', stopRedis],
    [0.24, 'key revoked', revoke],
    [0.28, 'walk', doWalk],
    [0.3, 'failover', failOver],
    [0.44, 'walk', doWalk],
    [0.46, 'sample', sample('46 %')],
    [0.48, 'restart', () => restart(a, 'SIGTERM')],
    [0.56, 'restart', () => restart(b, 'SIGTERM')],
    [0.64, 'reload', () => reload('first')],
    [0.66, 'sample', sample('66 %')],
    [0.7, 'kill -9', () => restart(a, 'SIGKILL')],
    [0.8, 'import', doImport],
    [0.86, 'reload', () => reload('second')],
    [0.9, 'walk', doWalk],
    [0.99, 'sample', sample('end')],
  ]
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
