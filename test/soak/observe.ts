import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseMetrics, type Sample } from '../support/metrics-text.ts'
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
  const keyOf = ({ name, labels }: Sample) => `${name} ${JSON.stringify(labels)}`
  const now = new Map(metrics.samples.map(sample => [keyOf(sample), sample.value]))
  for (const sample of life.metrics?.samples ?? []) {
    const later = now.get(keyOf(sample))
    if (COUNTS.test(sample.name) && (later === undefined || later < sample.value)) {
      problems.note('a count decreased', `${keyOf(sample)}: ${sample.value}, then ${later}`)
    }
  }
  life.metrics = metrics
  return life
}

/** Scrapes all services every second until it is stopped. */
export function startScraping(site: Site, windows: FaultWindows, problems: Problems) {
  /** Numbers of scrapes. `unplanned` are those that showed an outage outside of a planned one: something answered too late. */
  const seen = { all: 0, storageDown: 0, limitStoreDown: 0, unplanned: 0 }
  const ended = new AbortController()

  async function look(service: Service): Promise<void> {
    const from = Date.now()
    const life = await scrape(service, problems)
    if (life === undefined) {
      const isPlanned =
        windows.met('restart', from, service.name) || windows.met('kill', from, service.name)
      if (!isPlanned) problems.note('no metrics', service.name)
      return
    }
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

  const loops = site.services.map(async service => {
    while (!ended.signal.aborted) {
      await look(service)
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

export type UsageSample = Awaited<ReturnType<typeof sampleUsage>>

/** What each service uses now. */
export async function sampleUsage(site: Site, label: string, url: string) {
  const rows = await queryPostgres(
    url,
    `SELECT application_name AS name, count(*) AS count FROM pg_stat_activity
     WHERE application_name LIKE 'soak-%' GROUP BY 1 ORDER BY 1`,
  )
  const processes = site.services.map(({ name, pid }) => {
    const status = readFileSync(`/proc/${pid()}/status`, 'utf8')
    return {
      ...{ name, pid: pid(), files: readdirSync(`/proc/${pid()}/fd`).length },
      residentMb: Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024),
      connections: Number(rows.find(row => row.name === `soak-${name}`)?.count ?? 0),
    }
  })
  return { label, processes }
}
