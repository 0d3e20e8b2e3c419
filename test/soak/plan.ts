import { setTimeout as sleep } from 'node:timers/promises'
import { queryPostgres } from '../support/postgres-client.ts'
import { until } from '../support/until.ts'
import { importUsers } from './imports.ts'
import { sampleUsage, type UsageSample } from './observe.ts'
import { LATER_BLOCKED_AGENT, type RULES } from './rules.ts'
import type { Service } from './service.ts'
import type { TrafficParts } from './traffic.ts'
import { walk } from './walk.ts'

/** What a step did, for the report. */
export interface StepResult {
  readonly at: number
  readonly step: string
  readonly result: string
}

interface Step {
  /** Its moment, as a part of the whole time. */
  readonly at: number
  readonly step: string
  run(): Promise<string>
}

/** After a fault, requests that met it may still be answered. */
const GRACE_MS = 5000

const ROWS = 2000

/** Enough that the failover comes in the middle. */
const FAILOVER_ROWS = 30_000

const REDIS_OUTAGE_MS = 5000

/** The log lines of how many seconds a kill may take with it. */
const LOSS_SECONDS = 2

export interface PlanOptions extends TrafficParts {
  readonly minutes: number
  readonly signal: AbortSignal
}

export interface PlanResults {
  readonly results: StepResult[]
  readonly samples: UsageSample[]
}

/** Runs the planned steps at their moments, beside the load. */
export async function runPlan(options: PlanOptions, results: PlanResults): Promise<void> {
  const { site, client, windows, problems, minutes, signal } = options
  const { primary, standby, redis } = site
  const [a, b] = site.services
  let databaseUrl = primary.url()

  async function isReady(service: Service): Promise<boolean> {
    return fetch(`${service.managementUrl}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    )
  }

  async function untilReady(): Promise<void> {
    for (const service of site.services) await until(() => isReady(service), 100)
  }

  async function stopRedis(): Promise<string> {
    const end = windows.open('redis')
    await redis.stop()
    await sleep(REDIS_OUTAGE_MS)
    await redis.start()
    for (const service of site.services) {
      await until(async () => {
        const response = await fetch(`${service.managementUrl}/readyz?verbose=true`)
        return !(await response.text()).includes('local')
      }, 100)
    }
    await sleep(GRACE_MS)
    end()
    return `away for ${REDIS_OUTAGE_MS / 1000} s; both services use it again`
  }

  async function failOver(): Promise<string> {
    const end = windows.open('database')
    const importing = importUsers(options, FAILOVER_ROWS)
    const imported = await until(async () => {
      const [row] = await queryPostgres(
        primary.url(),
        'SELECT record_count AS count FROM imports WHERE record_count > 0 AND NOT is_finished',
      )
      return row?.count
    })
    const from = Date.now()
    await primary.kill()
    await until(async () => !(await isReady(a)) && !(await isReady(b)), 50)
    await sleep(2000)
    await standby.promote()
    databaseUrl = standby.url()
    const promotedAt = Date.now()
    await untilReady()
    const readyAt = Date.now()
    const attempts = await importing
    await sleep(GRACE_MS)
    end()
    return `primary killed, standby promoted ${seconds(promotedAt - from)} later; both services ready ${seconds(readyAt - promotedAt)} after that; an import of ${FAILOVER_ROWS} users had done ${imported} and was continued ${times(attempts)}`
  }

  async function restart(service: Service): Promise<string> {
    const end = windows.open('restart', service.name)
    const from = Date.now()
    const code = await service.stop()
    const stoppedAt = Date.now()
    if (code !== 0) problems.note('exit code after SIGTERM', `${service.name}: ${code}`)
    await service.start()
    await untilReady()
    const readyAt = Date.now()
    await sleep(GRACE_MS)
    end()
    return `${service.name}: exit code ${code} after ${seconds(stoppedAt - from)}, ready ${seconds(readyAt - stoppedAt)} later`
  }

  async function kill(service: Service): Promise<string> {
    const end = windows.open('kill', service.name)
    const life = service.life()
    const from = Date.now()
    await service.kill()
    const first = Math.floor(from / 1000) - LOSS_SECONDS
    for (let second = first; second <= Math.floor(Date.now() / 1000); second++) {
      life.maxLost += life.perSecond.get(second) ?? 0
    }
    await service.start()
    await untilReady()
    const readyAt = Date.now()
    await sleep(GRACE_MS)
    end()
    return `${service.name}: ready again ${seconds(readyAt - from)} later`
  }

  async function reload(version: keyof typeof RULES): Promise<string> {
    site.writeRules(version)
    for (const service of site.services) service.reload()
    const wanted = version === 'second' ? 403 : 200
    const ask = async (service: Service) => {
      const reply = await client.ask({
        ...{ method: 'GET', path: '/users?per_page=1', route: '/users', service },
        headers: { 'User-Agent': LATER_BLOCKED_AGENT },
      })
      return reply.kind === 'answer' && reply.status === wanted
    }
    for (const service of site.services) await until(() => ask(service))
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

  async function sample(label: string): Promise<string> {
    results.samples.push(await sampleUsage(site, label, databaseUrl))
    return label
  }

  const walkAll = async () => `${await walk(options)} users by cursors`
  const doImport = async () => `${ROWS} users, continued ${times(await importUsers(options, ROWS))}`

  const steps: readonly Step[] = [
    { at: 0.05, step: 'import', run: doImport },
    { at: 0.1, step: 'sample', run: () => sample('10 %') },
    { at: 0.12, step: 'reload', run: () => reload('second') },
    { at: 0.15, step: 'Redis stopped', run: stopRedis },
    { at: 0.24, step: 'key revoked', run: revoke },
    { at: 0.28, step: 'walk', run: walkAll },
    { at: 0.3, step: 'failover', run: failOver },
    { at: 0.44, step: 'walk', run: walkAll },
    { at: 0.46, step: 'sample', run: () => sample('46 %') },
    { at: 0.48, step: 'restart', run: () => restart(a) },
    { at: 0.56, step: 'restart', run: () => restart(b) },
    { at: 0.64, step: 'reload', run: () => reload('first') },
    { at: 0.66, step: 'sample', run: () => sample('66 %') },
    { at: 0.7, step: 'kill -9', run: () => kill(a) },
    { at: 0.8, step: 'import', run: doImport },
    { at: 0.86, step: 'reload', run: () => reload('second') },
    { at: 0.9, step: 'walk', run: walkAll },
    { at: 0.99, step: 'sample', run: () => sample('end') },
  ]
  const start = Date.now()
  for (const { at, step, run } of steps) {
    const wait = start + at * minutes * 60_000 - Date.now()
    if (wait > 0) await sleep(wait, undefined, { signal })
    signal.throwIfAborted()
    const begun = Date.now()
    const result = await run().catch(error => {
      problems.note(`the step ${step}`, String(error?.stack ?? error))
      return `**failed**: ${error}`
    })
    results.results.push({ at: begun - start, step, result })
    console.error(`${seconds(begun - start)} ${step}: ${result}`)
  }
  const rest = start + minutes * 60_000 - Date.now()
  if (rest > 0) await sleep(rest, undefined, { signal })
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function times(count: number): string {
  if (count === 0) return 'never'
  return count === 1 ? 'once' : `${count} times`
}
