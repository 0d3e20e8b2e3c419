import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseMetrics } from '../support/metrics-text.ts'
import { queryPostgres } from '../support/postgres-client.ts'
import type { FaultWindows } from './fault-windows.ts'
import type { Problems } from './problems.ts'
import type { Life, Service } from './service.ts'
import type { Site } from './site.ts'

const EVERY_MS = 1000

/** Series that only grow. */
const COUNTS = /_(total|count|bucket|sum)$/

/** Scrapes a service into its current life. Undefined if it does not answer. */
export async function scrape(service: Service, problems: Problems): Promise<Life | undefined> {
  const life = service.life()
  const text = await fetch(`${service.managementUrl}/metrics`)
    .then(response => response.text())
    .catch(() => undefined)
  if (text === undefined || service.life() !== life) return undefined
  const metrics = parseMetrics(text)
  if (life.metrics !== undefined) {
    const keyOf = (name: string, labels: object) => `${name} ${JSON.stringify(labels)}`
    const now = new Map(
      metrics.samples.map(({ name, labels, value }) => [keyOf(name, labels), value]),
    )
    for (const { name, labels, value } of life.metrics.samples) {
      if (!COUNTS.test(name)) continue
      const later = now.get(keyOf(name, labels))
      if (later === undefined || later < value) {
        problems.note('a count decreased', `${keyOf(name, labels)}: ${value}, then ${later}`)
      }
    }
  }
  life.metrics = metrics
  life.scrapes++
  return life
}

/** Numbers of scrapes. */
interface Seen {
  all: number
  storageDown: number
  limitStoreDown: number
  /** Of the last two, those outside of a planned outage: either answered too late. */
  unplanned: number
}

export interface Scraping {
  readonly seen: Seen
  stop(): Promise<void>
}

/** Scrapes all services every second until it is stopped. */
export function startScraping(site: Site, windows: FaultWindows, problems: Problems): Scraping {
  const seen: Seen = { all: 0, storageDown: 0, limitStoreDown: 0, unplanned: 0 }
  const ended = new AbortController()
  const loops = site.services.map(async service => {
    while (!ended.signal.aborted) {
      const from = Date.now()
      const life = await scrape(service, problems)
      if (life === undefined) {
        const isPlanned = (['restart', 'kill'] as const).some(fault =>
          windows.met(fault, from, service.name),
        )
        if (!isPlanned) problems.note('no metrics', service.name)
      } else {
        seen.all++
        if (life.metrics?.read('storage_up') === 0) {
          seen.storageDown++
          if (!windows.met('database', from)) seen.unplanned++
        }
        if (life.metrics?.read('limit_store_up') === 0) {
          seen.limitStoreDown++
          if (!windows.met('redis', from)) seen.unplanned++
        }
      }
      await sleep(EVERY_MS, undefined, { signal: ended.signal }).catch(() => {})
    }
  })
  return {
    seen,
    stop: async () => {
      ended.abort()
      await Promise.all(loops)
    },
  }
}

/** What a process uses. */
export interface Usage {
  readonly process: string
  readonly pid: number
  readonly residentMb: number
  readonly files: number
}

export interface UsageSample {
  readonly label: string
  readonly processes: readonly Usage[]
  /** Connections to PostgreSQL by service. */
  readonly connections: Readonly<Record<string, number>>
}

export async function sampleUsage(site: Site, label: string, url: string): Promise<UsageSample> {
  const processes = site.services.map(service => {
    const pid = service.pid()
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return {
      ...{ process: service.name, pid, files: readdirSync(`/proc/${pid}/fd`).length },
      residentMb: Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024),
    }
  })
  const rows = await queryPostgres(
    url,
    `SELECT application_name AS name, count(*) AS count FROM pg_stat_activity
     WHERE application_name LIKE 'soak-%' GROUP BY 1 ORDER BY 1`,
  )
  const connections = Object.fromEntries(rows.map(({ name, count }) => [name, Number(count)]))
  return { label, processes, connections }
}
