import { setTimeout as sleep } from 'node:timers/promises'
import { queryPostgres, withPostgres } from '../support/postgres-client.ts'
import type { Ledger } from './ledger.ts'
import { scrape, type UsageSample } from './observe.ts'
import type { Problems } from './problems.ts'
import type { Life, Service } from './service.ts'
import type { Site } from './site.ts'
import { differences, regroup, sumOf, type Tally } from './tally.ts'

/** One promise, and what came of it. */
export interface Check {
  readonly check: string
  readonly isFine: boolean
  readonly figure: string
}

const ATTEMPTS = 100

const PAGE = 5000

/** Compares each row of the database with what clients know. */
export async function compareUsers(url: string, ledger: Ledger): Promise<Check[]> {
  const faults: string[] = []
  const found = new Set<string>()
  let rows = 0
  let previous = 0
  await withPostgres(url, async client => {
    for (;;) {
      const { rows: page } = await client.query(
        `SELECT id, name, email, updated_at FROM users WHERE id > $1 ORDER BY id LIMIT ${PAGE}`,
        [previous],
      )
      for (const { id, name, email, updated_at } of page) {
        rows++
        previous = id
        const account = ledger.accounts.get(email)
        if (account === undefined) {
          faults.push(`${id}: nobody created ${email}`)
          continue
        }
        found.add(email)
        if (account.id !== undefined && account.id !== id) {
          faults.push(`${email} has the id ${id}, not ${account.id}`)
        }
        if (!account.names.includes(name)) {
          faults.push(`${id} is ${name}, not one of ${account.names.join(', ')}`)
        }
        if (account.updatedAt !== undefined && account.updatedAt !== updated_at) {
          faults.push(`${id} was changed at ${updated_at}, not ${account.updatedAt}`)
        }
      }
      if (page.length < PAGE) return
    }
  })
  let uncertain = 0
  for (const { email, id, names } of ledger.accounts.values()) {
    if (names.length > 1) uncertain++
    if (!found.has(email) && !names.includes(undefined)) faults.push(`${email} (${id}) is lost`)
  }
  return [
    {
      check: 'every acknowledged write is in the database, and nothing that was refused',
      isFine: faults.length === 0,
      figure: `${rows} rows, ${ledger.accounts.size} addresses, ${uncertain} with an unknown outcome${faultsIn(faults)}`,
    },
  ]
}

function faultsIn(faults: readonly string[]): string {
  return faults.length === 0 ? '' : `; ${faults.length} wrong: ${faults.slice(0, 5).join('; ')}`
}

/** Counts of clients, of the log and of the metrics, for each life of each service. */
export async function compareCounts(services: readonly Service[], problems: Problems) {
  const checks: Check[] = []
  for (const service of services) {
    for (const life of service.lives) {
      const isOver = life !== service.life()
      if (!isOver) await untilCounted(service, life, problems)
      checks.push(compareLog(life), compareMetrics(life, isOver))
    }
  }
  return checks
}

/** A count may come a moment after the answer. */
async function untilCounted(service: Service, life: Life, problems: Problems): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await scrape(service, problems)
    const isCounted = differences(life.answered, countsOf(life)).length === 0
    const isLogged = sumOf(life.logged) >= sumOf(life.answered)
    if (isCounted && isLogged) return
    await sleep(100)
  }
}

function countsOf(life: Life): Tally {
  const counts: Tally = new Map()
  for (const { labels, value } of life.metrics?.all('http_request_duration_seconds_count') ?? []) {
    if (value > 0) counts.set(`${labels.method} ${labels.route} ${labels.status}`, value)
  }
  return counts
}

function withoutRoute(tally: Tally): Tally {
  return regroup(tally, name => {
    const [method, , status] = name.split(' ')
    return `${method} ${status}`
  })
}

function compareLog(life: Life): Check {
  const different = differences(withoutRoute(life.answered), life.logged)
  const missing = sumAbove(different)
  const more = sumBelow(different)
  return {
    check: `request lines in the log of ${nameOf(life)}`,
    isFine: missing <= life.maxLost && more <= life.unanswered,
    figure: figure(life, sumOf(life.logged), missing, more),
  }
}

function compareMetrics(life: Life, isOver: boolean): Check {
  const counts = countsOf(life)
  const different = differences(life.answered, counts)
  const missing = sumAbove(different)
  const more = sumBelow(different)
  return {
    check: `${isOver ? 'last scrape' : 'metrics'} of ${nameOf(life)}`,
    isFine: (isOver || missing === 0) && more <= life.unanswered,
    figure: figure(life, sumOf(counts), missing, more),
  }
}

function nameOf({ service, number }: Life): string {
  return `service ${service}, start ${number}`
}

function figure(life: Life, counted: number, missing: number, more: number): string {
  const bound = life.maxLost > 0 ? ` (a kill may take up to ${life.maxLost})` : ''
  return `${sumOf(life.answered)} answers, ${life.unanswered} requests without one; ${counted} counted: ${missing} missing${bound}, ${more} more`
}

function sumAbove(all: readonly { difference: number }[]): number {
  return all.reduce((sum, { difference }) => sum + Math.max(0, difference), 0)
}

function sumBelow(all: readonly { difference: number }[]): number {
  return all.reduce((sum, { difference }) => sum + Math.max(0, -difference), 0)
}

interface ShownBan {
  readonly rule: string
  readonly client: string
  readonly ends_at: string
}

/** Both services and the database have the same bans. */
export async function compareBans(site: Site, url: string): Promise<Check> {
  const read = async (service: Service) => {
    const response = await fetch(`${service.managementUrl}/bans?per_page=1000`)
    return ((await response.json()) as ShownBan[])
      .filter(({ rule }) => rule === 'scanners')
      .map(({ client, ends_at }) => `${client} ${ends_at}`)
  }
  let lists: string[][] = []
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const now = Date.now()
    const rows = await queryPostgres(
      url,
      `SELECT client_key, ends_at FROM bans WHERE rule = 'scanners' AND ends_at > ${now}`,
    )
    const stored = rows.map(
      ({ client_key, ends_at }) => `${client_key} ${new Date(Number(ends_at)).toISOString()}`,
    )
    lists = [stored, ...(await Promise.all(site.services.map(read)))]
    const [first, ...others] = lists.map(list => list.toSorted().join())
    if (others.every(other => other === first)) break
    await sleep(100)
  }
  const sizes = lists.map(list => list.length)
  return {
    check: 'bans are the same in the database and both services',
    isFine: new Set(lists.map(list => list.toSorted().join())).size === 1,
    figure: `${sizes.join(', ')} bans`,
  }
}

/** Refusals by the rules, as clients and metrics count them. */
export function compareRefusals(services: readonly Service[]): Check[] {
  return services.map(service => {
    const life = service.life()
    const counted = (type: string, rule: string) =>
      life.metrics?.read('limit_decisions_total', { type, rule, outcome: 'refused' }) ?? 0
    const got = [...life.answered].filter(([name]) => name.endsWith(' 429'))
    const clients = got.reduce((sum, [, count]) => sum + count, 0)
    const metrics = counted('throttle', 'lists')
    const tried = life.metrics?.all('limit_decisions_total', { outcome: 'would_refuse' }) ?? []
    const dry = tried.reduce((sum, { value }) => sum + value, 0)
    return {
      check: `refusals by the throttle in ${nameOf(life)}`,
      isFine: dry > 0 && clients === metrics,
      figure: `${clients} answers with 429, ${metrics} refusals counted; ${dry} more by dry runs, which refused nothing`,
    }
  })
}

/** No process needs more and more. */
export function compareUsage(samples: readonly UsageSample[]): Check[] {
  const byPid = new Map<number, UsageSample['processes'][number][]>()
  for (const { processes } of samples) {
    for (const usage of processes) byPid.set(usage.pid, [...(byPid.get(usage.pid) ?? []), usage])
  }
  const grown = [...byPid.values()].filter(usages => {
    const [first, last] = [usages[0], usages.at(-1)]
    if (first === undefined || last === undefined) return false
    return last.residentMb > first.residentMb * 1.5 + 100 || last.files > first.files + 200
  })
  const most = Math.max(...samples.flatMap(({ connections }) => Object.values(connections)))
  return [
    {
      check: 'no process grows by more than half and 100 MB, or by 200 open files',
      isFine: grown.length === 0,
      figure: `${byPid.size} processes${grown.length > 0 ? `, grown: ${grown.map(([usage]) => usage?.process)}` : ''}`,
    },
    {
      check: 'a service has at most 11 connections to PostgreSQL',
      isFine: most <= 11,
      figure: `at most ${most}`,
    },
  ]
}
