import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { makeDatabaseIn } from '../support/databases.ts'
import { inForm, isLong, report } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { crowd } from './crowd.ts'

/** The first three warm everything up: only then has the rule about creates, a tenth of the requests, as many keys as it may keep. */
const A_TENTH = inForm({ short: 500, long: 300_000 })

const MAX_HEAP_GROWTH_BYTES = 2 * 1024 * 1024

/** Preloaded into the service: answers a message with its memory and resources after a garbage collection. */
const PROBE = `process.on('message', () => {
  globalThis.gc()
  const kinds = process.getActiveResourcesInfo()
  process.send({ heapBytes: process.memoryUsage().heapUsed, kinds })
})
process.channel.unref()`

/** Limits that count every client, of a million, and deny none. */
const LIMITS = {
  throttle: [{ name: 'all', limit: 1_000_000, period: '10 seconds' }],
  track: [{ name: 'rare', limit: 1_000_000, period: '1 day' }],
  rateLimits: [{ name: 'creates', to: 1_000_000, within: '1 minute', only: ['create'] }],
}

/** What a service holds once the connections of the load are closed. */
async function holdingOf({ process: child }: SpawnedService) {
  for (;;) {
    child.send('tell')
    const [told] = await once(child, 'message')
    const { heapBytes, kinds } = told as { heapBytes: number; kinds: string[] }
    const descriptors = readdirSync(`/proc/${child.pid}/fd`).length
    if (!kinds.includes('TCPSocketWrap')) return { heapBytes, kinds: kinds.length, descriptors }
    await sleep(50)
  }
}

test('mixed requests by a million clients leave nothing behind', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
  makeDatabaseIn(cwd, { users: 1000 })
  const service = await spawnService({
    cwd,
    env: { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1' },
    nodeArgs: ['--expose-gc', '--import', `data:text/javascript,${encodeURIComponent(PROBE)}`],
    keepsLog: false,
  })
  const holdings: Awaited<ReturnType<typeof holdingOf>>[] = []
  for (let tenth = 0; tenth < 10; tenth++) {
    const isOver = (statuses: Readonly<Record<string, number>>) =>
      Object.values(statuses).reduce((sum, count) => sum + count, 0) >= A_TENTH
    const statuses = await crowd({ port: service.port, clients: 50, workload: 'mixed', isOver })
    expect(Object.keys(statuses)).toEqual(['200', '201', '404'])
    holdings.push(await holdingOf(service))
  }
  const [first, last] = [holdings[2], holdings[9]]
  if (first === undefined || last === undefined) throw new Error('nothing was measured')
  // At the first measurement a timer of the start may still run, which Node 24 reports.
  expect(last.kinds).toBeLessThanOrEqual(first.kinds)
  expect(last.descriptors).toBeLessThanOrEqual(first.descriptors)
  if (isLong) expect(last.heapBytes - first.heapBytes).toBeLessThan(MAX_HEAP_GROWTH_BYTES)
  report('long run', { first, last })
})
