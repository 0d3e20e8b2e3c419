import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { inForm, isLong, report } from '../support/faults.ts'
import { fillDatabase } from '../support/fill-users.ts'
import { load } from '../support/load.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { residentMb } from '../support/process-memory.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'

const PROBE = pathToFileURL(fileURLToPath(new URL('../support/memory-probe.mjs', import.meta.url)))

const REQUESTS = inForm({ short: 5000, long: 3_000_000 })

/** Each round sends the same number of requests. The first one warms everything up. */
const TENTHS = 10

const MAX_HEAP_GROWTH_BYTES = 2 * 1024 * 1024

/** Limits that count every client, of a million, and deny none. */
const LIMITS = {
  throttle: [{ name: 'all', limit: 1_000_000, period: '10 seconds' }],
  track: [{ name: 'rare', limit: 1_000_000, period: '1 day' }],
  rateLimits: [{ name: 'creates', to: 1_000_000, within: '1 minute', only: ['create'] }],
}

interface Holding {
  readonly heapBytes: number
  readonly residentBytes: number
  readonly resources: Readonly<Record<string, number>>
  readonly descriptors: number
}

/** Measured after the connections of the load are closed. */
async function holdingOf({ process: child }: SpawnedService): Promise<Holding> {
  for (;;) {
    child.send('tell')
    const [told] = await once(child, 'message')
    const descriptors = readdirSync(`/proc/${child.pid}/fd`).length
    if (told.resources.TCPSocketWrap === undefined) return { ...told, descriptors }
    await sleep(50)
  }
}

test('mixed requests by a million clients leave nothing behind', async () => {
  const cwd = temporaryFolder()
  const limitsFile = join(cwd, 'limits.json')
  writeFileSync(limitsFile, JSON.stringify(LIMITS))
  await fillDatabase(cwd, 1000)
  const service = await spawnService({
    cwd,
    env: { LIMITS_FILE: limitsFile, TRUST_PROXY: '1' },
    nodeArgs: ['--expose-gc', '--import', PROBE.href],
    keepsLog: false,
  })
  const { port } = service
  const holdings: Holding[] = []
  const statuses: Record<string, number> = {}
  const startedAt = performance.now()
  for (let tenth = 0; tenth < TENTHS; tenth++) {
    const figures = await load({
      port,
      connections: 50,
      requests: REQUESTS / TENTHS,
      workload: 'mixed',
      run: String(tenth),
    })
    for (const [status, count] of Object.entries(figures.statuses)) {
      statuses[status] = (statuses[status] ?? 0) + count
    }
    holdings.push(await holdingOf(service))
  }
  const [first, last] = [holdings[0] as Holding, holdings.at(-1) as Holding]
  expect(Object.keys(statuses).toSorted()).toEqual(['200', '201', '404'])
  // At the first measurement a timer of the start may still run, which Node 24 reports.
  const more = Object.entries(last.resources).filter(
    ([kind, count]) => count > (first.resources[kind] ?? 0),
  )
  expect(more).toEqual([])
  expect(last.descriptors).toBeLessThanOrEqual(first.descriptors)
  const grown = last.heapBytes - first.heapBytes
  if (isLong) expect(grown).toBeLessThan(MAX_HEAP_GROWTH_BYTES)
  report('long run', {
    statuses,
    seconds: Math.round((performance.now() - startedAt) / 1000),
    heapMb: holdings.map(({ heapBytes }) => Math.round(heapBytes / 1e5) / 10),
    residentMb: holdings.map(({ residentBytes }) => Math.round(residentBytes / 1e6)),
    peakMb: residentMb(service.process.pid, 'VmHWM'),
    resources: last.resources,
    descriptors: holdings.map(({ descriptors }) => descriptors),
  })
})
