import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import {
  type DiskFaults,
  type OnFailingDisk,
  startOnFailingDisk,
  whyNoFailingDisk,
} from '../support/failing-disk.ts'
import { createRandom, inForm, quantile, report } from '../support/faults.ts'
import { ask, timeUntil } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import type { SpawnedService } from '../support/spawn-service.ts'

const reason = whyNoFailingDisk()
if (reason !== undefined) console.log(`test/faults/disk-soak.test.ts is skipped: ${reason}`)

const LIVES = inForm({ short: 2, long: 40 })

const FAULTS_A_LIFE = inForm({ short: 3, long: 20 })

const MAX_FAULT_MS = 60

const MAX_PASSES = 40

const CLIENTS = 8

/** The possible states of each user: names that were acknowledged or are in flight; `undefined` for no user. */
type Known = Map<string, (string | undefined)[]>

interface Tally {
  known: Known
  readonly statuses: Map<number, number>
  readonly recoveries: number[]
}

const random = createRandom()

function pick<T>(values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T
}

function anyFault(): DiskFaults {
  const passes = Math.floor(random() * MAX_PASSES)
  return pick<DiskFaults>([
    { writes: 'ENOSPC', passes },
    { writes: 'EIO', syncs: 'EIO', passes },
    { writes: 'EIO', syncs: 'EIO', untilSync: true },
    { writes: 'EIO', syncs: 'EIO', reads: 'EIO', truncates: 'EIO', passes },
    { shortWrites: true },
    syncFault(),
  ])
}

function syncFault(): DiskFaults {
  return { syncs: 'EIO', passes: Math.floor(random() * 5), failures: pick([1, 3, -1]) }
}

/** Creates and renames its own users, one write after another, until the service is gone. */
async function writeUntilKilled(
  service: SpawnedService,
  client: string,
  { known, statuses }: Tally,
) {
  async function write(line: string, email: string, name: string): Promise<number> {
    const before = known.get(email) ?? [undefined]
    known.set(email, [...before, name])
    const { status, body } = await ask(service, line, newUserBody({ email, name }))
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    expect([200, 201, 503]).toContain(status)
    known.set(email, status === 503 ? before : [name])
    return body.id
  }
  for (let serial = 0; ; serial++) {
    const email = `${client}.${serial}@x.co`
    try {
      const id = await write('POST /users', email, 'Created')
      if (id !== undefined && serial % 2 === 0) await write(`PUT /users/${id}`, email, 'Renamed')
    } catch (error) {
      if (error instanceof TypeError) return
      throw error
    }
  }
}

/** A disk with random faults. It works again before the crash, unless only syncs failed. */
async function live({ disk, service }: OnFailingDisk, fault: () => DiskFaults, tally: Tally) {
  for (let count = 0; count < FAULTS_A_LIFE; count++) {
    disk.fail(fault())
    await sleep(random() * MAX_FAULT_MS)
    if (fault === syncFault) continue
    disk.work()
    const write = async () => (await ask(service, 'POST /users', newUserBody())).status === 201
    tally.recoveries.push(await timeUntil(write))
  }
}

test.skipIf(reason !== undefined)(
  'a disk with random faults, and crashes meanwhile, lose no acknowledged write and keep no rejected one',
  async () => {
    const cwd = temporaryFolder()
    const tally: Tally = { known: new Map(), statuses: new Map(), recoveries: [] }
    // On a busy machine a fault may end before any call meets it.
    for (let life = 0; life < LIVES || !tally.statuses.has(503); life++) {
      const started = await startOnFailingDisk(cwd)
      const clients = Array.from({ length: CLIENTS }, (_, client) =>
        writeUntilKilled(started.service, `${life}.${client}`, tally),
      )
      await live(started, life % 2 === 0 ? anyFault : syncFault, tally)
      expect(started.service.process.exitCode).toBeNull()
      started.service.process.kill('SIGKILL')
      await Promise.all(clients)
    }
    const database = new Database(join(cwd, 'data', 'users.db'))
    const rows = database
      .prepare<[], { email: string; name: string }>('SELECT email, name FROM users')
      .all()
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    database.close()
    const found = new Map(rows.map(({ email, name }) => [email, name]))
    const wrong = [...tally.known].filter(([email, names]) => !names.includes(found.get(email)))
    expect(wrong.map(([email, names]) => ({ email, names, found: found.get(email) }))).toEqual([])
    expect(tally.statuses.get(503)).toBeGreaterThan(0)
    report('a disk that fails now and then', {
      lives: LIVES,
      statuses: Object.fromEntries(tally.statuses),
      recoveryP50Ms: quantile(tally.recoveries, 0.5),
      recoveryP99Ms: quantile(tally.recoveries, 0.99),
      slowestRecoveryMs: Math.max(...tally.recoveries),
    })
  },
)
