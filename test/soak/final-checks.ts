import { setTimeout as sleep } from 'node:timers/promises'
import { queryPostgres, withPostgres } from '../support/postgres-client.ts'
import type { FaultWindows } from './fault-windows.ts'
import type { Ledger } from './ledger.ts'
import { scrape, type UsageSample } from './observe.ts'
import type { Problems } from './problems.ts'
import type { Life, Service } from './service.ts'
import type { Site } from './site.ts'
import { add, compareTallies, sumOf, type Tally } from './tally.ts'

/** One promise, and what came of it. */
export interface Check {
  readonly check: string
  readonly isFine: boolean
  readonly figure: string
}

const ATTEMPTS = 100

const PAGE = 5000

/** Written while the database is away. Both are done once it is back. */
const WITHOUT_DATABASE = ['cannot persist a ban', 'cannot record when API keys were used']

/** Compares each row of the database with what clients know. */
export async function compareUsers(url: string, ledger: Ledger): Promise<Check> {
  const faults: string[] = []
  const found = new Set<string>()
  const rows = await readUsers(url)
  for (const { id, name, email, updated_at: updatedAt } of rows) {
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
    if (account.updatedAt !== undefined && account.updatedAt !== updatedAt) {
      faults.push(`${id} was changed at ${updatedAt}, not ${account.updatedAt}`)
    }
  }
  let uncertain = 0
  for (const { email, id, names } of ledger.accounts.values()) {
    if (names.length > 1) uncertain++
    if (!found.has(email) && !names.includes(undefined)) faults.push(`${email} (${id}) is lost`)
  }
  const examples = faults.slice(0, 5).join('; ')
  return {
    check: 'every acknowledged write is in the database, and nothing that was refused',
    isFine: faults.length === 0,
    figure: `${rows.length} rows, ${ledger.accounts.size} addresses, ${uncertain} with an unknown outcome; ${faults.length} wrong${examples && `: ${examples}`}`,
  }
}

interface StoredUser {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly updated_at: string
}

function readUsers(url: string): Promise<StoredUser[]> {
  return withPostgres(url, async client => {
    const all: StoredUser[] = []
    for (;;) {
      const { rows } = await client.query(
        `SELECT id, name, email, updated_at FROM users WHERE id > $1 ORDER BY id LIMIT ${PAGE}`,
        [all.at(-1)?.id ?? 0],
      )
      all.push(...rows)
      if (rows.length < PAGE) return all
    }
  })
}

/** Looks until it is so, or for ten seconds: what is compared may come a moment after the answer. */
async function wait(isSo: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (await isSo()) return
    await sleep(100)
  }
}

/** Counts of clients, of the log and of the metrics, for each life of each service. */
export async function compareCounts(services: readonly Service[], problems: Problems) {
  const checks: Check[] = []
  for (const service of services) {
    for (const life of service.lives) {
      const isOver = life !== service.life()
      const name = nameOf(life)
      if (!isOver) {
        await wait(async () => {
          await scrape(service, problems)
          const { missing, more } = compareTallies(life.answered, countsOf(life))
          return missing + more === 0 && sumOf(life.logged) >= sumOf(life.answered)
        })
      }
      const log = compareTallies(withoutRoute(life.answered), life.logged)
      checks.push({
        check: `request lines in the log of ${name}`,
        isFine: log.missing <= life.maxLost && log.more <= life.unanswered,
        figure: figureOf(life, life.logged, log),
      })
      const metrics = compareTallies(life.answered, countsOf(life))
      checks.push({
        check: `${isOver ? 'last scrape' : 'metrics'} of ${name}`,
        isFine: (isOver || metrics.missing === 0) && metrics.more <= life.unanswered,
        figure: figureOf(life, countsOf(life), metrics),
      })
    }
  }
  return checks
}

function countsOf(life: Life): Tally {
  const samples = life.metrics?.all('http_request_duration_seconds_count') ?? []
  return new Map(
    samples
      .filter(({ value }) => value > 0)
      .map(({ labels, value }) => [`${labels.method} ${labels.route} ${labels.status}`, value]),
  )
}

function withoutRoute(tally: Tally): Tally {
  const groups: Tally = new Map()
  for (const [name, count] of tally) {
    const [method, , status] = name.split(' ')
    add(groups, `${method} ${status}`, count)
  }
  return groups
}

function nameOf({ service, number }: Life): string {
  return `service ${service}, start ${number}`
}

function figureOf(life: Life, counted: Tally, { missing, more }: Record<string, number>): string {
  const bound = life.maxLost > 0 ? ` (a kill may take up to ${life.maxLost})` : ''
  return `${sumOf(life.answered)} answers, ${life.unanswered} requests without one; ${sumOf(counted)} counted: ${missing} missing${bound}, ${more} more`
}

/** Both services and the database have the same bans. */
export async function compareBans(site: Site, url: string): Promise<Check> {
  async function shownBy({ managementUrl }: Service): Promise<string[]> {
    const response = await fetch(`${managementUrl}/bans?per_page=1000`)
    const bans = (await response.json()) as { rule: string; client: string; ends_at: string }[]
    return bans
      .filter(({ rule }) => rule === 'scanners')
      .map(({ client, ends_at }) => `${client} ${ends_at}`)
  }
  async function stored(): Promise<string[]> {
    const rows = await queryPostgres(
      url,
      `SELECT client_key, ends_at FROM bans WHERE rule = 'scanners' AND ends_at > ${Date.now()}`,
    )
    return rows.map(row => `${row.client_key} ${new Date(Number(row.ends_at)).toISOString()}`)
  }
  let lists: string[][] = []
  const areEqual = () => new Set(lists.map(list => list.toSorted().join())).size === 1
  await wait(async () => {
    lists = [await stored(), ...(await Promise.all(site.services.map(shownBy)))]
    return areEqual()
  })
  return {
    check: 'bans are the same in the database and both services',
    isFine: areEqual(),
    figure: `${lists.map(list => list.length).join(', ')} bans`,
  }
}

/** Refusals by the rules, as clients and metrics count them. */
export function compareRefusals(services: readonly Service[]): Check[] {
  return services.map(service => {
    const life = service.life()
    const { answered, metrics } = life
    const refused = [...answered].filter(([name]) => name.endsWith(' 429'))
    const clients = sumOf(new Map(refused))
    const rule = { type: 'throttle', rule: 'lists', outcome: 'refused' }
    const counted = metrics?.read('limit_decisions_total', rule) ?? 0
    const tried = metrics?.all('limit_decisions_total', { outcome: 'would_refuse' }) ?? []
    const dry = tried.reduce((sum, { value }) => sum + value, 0)
    return {
      check: `refusals by the throttle in ${nameOf(life)}`,
      isFine: dry > 0 && clients === counted,
      figure: `${clients} answers with 429, ${counted} refusals counted; ${dry} more by dry runs, which refused nothing`,
    }
  })
}

/** No process needs more and more. */
export function compareUsage(samples: readonly UsageSample[]): Check[] {
  const all = samples.flatMap(({ processes }) => processes)
  const pids = [...new Set(all.map(({ pid }) => pid))]
  const grown = pids.filter(pid => {
    const ofOne = all.filter(usage => usage.pid === pid)
    const [first, last] = [ofOne[0], ofOne.at(-1)]
    if (first === undefined || last === undefined) return false
    return last.residentMb > first.residentMb * 1.5 + 100 || last.files > first.files + 200
  })
  const most = Math.max(...all.map(({ connections }) => connections))
  return [
    {
      check: 'no process grows by more than half and 100 MB, or by 200 open files',
      isFine: grown.length === 0,
      figure: `${pids.length} processes${grown.length > 0 ? `, grown: ${grown.join(', ')}` : ''}`,
    },
    {
      check: 'a service has at most 11 connections to PostgreSQL',
      isFine: most <= 11,
      figure: `at most ${most}`,
    },
  ]
}

/** No line of level error or fatal, except about a planned fault. */
export function compareLogs(services: readonly Service[], windows: FaultWindows): Check {
  const bad = services
    .flatMap(service => service.errors)
    .filter(({ line, at }) => {
      const isWaiting = WITHOUT_DATABASE.includes(String(line.msg))
      return !isWaiting || !windows.met('database', at, undefined, at)
    })
  const examples = bad.slice(0, 3).map(({ line }) => JSON.stringify(line).slice(0, 300))
  return {
    check: 'no log line of level error, except about what waits for the database',
    isFine: bad.length === 0,
    figure: `${bad.length} lines ${examples.join(' ')}`,
  }
}
