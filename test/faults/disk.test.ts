import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { makeDatabaseIn } from '../support/databases.ts'
import { createFailingDisk, type DiskFaults, startOnFailingDisk } from '../support/failing-disk.ts'
import { createRandom, inForm, report } from '../support/faults.ts'
import { ask, expectUnavailable } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canFailDisks } from '../support/programs.ts'
import { run, type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'
import { createClients } from './clients.ts'

/** More users than the pages that the service keeps in memory can hold. */
const MANY_USERS = 40_000

const OLD = newUserBody({ email: 'old@x.co' })

const REFUSED = newUserBody({ email: 'refused@x.co' })

async function start() {
  const started = await startOnFailingDisk()
  expect((await ask(started.service, 'POST /users', OLD)).status).toBe(201)
  return started
}

async function emailsIn(service: SpawnedService): Promise<string[]> {
  const { body } = await ask(service, 'GET /users?per_page=1000')
  return body.map(({ email }: { email: string }) => email)
}

async function emailsAfterCrash(cwd: string, service: SpawnedService): Promise<string[]> {
  await service.end('SIGKILL')
  return emailsIn(await spawnService({ cwd }))
}

describe.skipIf(!canFailDisks)('a disk', () => {
  test.each([0, 1000])(
    'with room for writes of %i bytes ends a first start with exit code 1 and a line',
    async room => {
      const cwd = temporaryFolder()
      const disk = createFailingDisk(join(cwd, 'data'))
      disk.fail({ writes: 'ENOSPC', room })
      const { code, stderr } = await run({ cwd, env: { PORT: '0', ...disk.env } })
      expect(code).toBe(1)
      expect(stderr).toMatch(/^DATABASE_URL was .*, but .* (disk|full).*\n$/)
    },
  )

  test.each<[what: string, faults: DiskFaults]>([
    ['fails from a sync on', { writes: 'EIO', syncs: 'EIO', untilSync: true }],
    ['is full within a write', { writes: 'ENOSPC', passes: 3 }],
    ['has become read-only', { writes: 'EROFS', truncates: 'EROFS' }],
  ])(
    'that %s: writes get 503, reads are served, and writes succeed once it works',
    async (_what, faults) => {
      const { cwd, disk, service } = await start()
      const create = () => ask(service, 'POST /users', REFUSED, { 'Idempotency-Key': 'key' })
      disk.fail(faults)
      expectUnavailable(await create())
      expectUnavailable(await ask(service, 'PUT /users/1', { user: { name: 'New' } }))
      expectUnavailable(await ask(service, 'DELETE /users/1'))
      expect(disk.failedCalls()).toBeGreaterThan(0)
      expect(await emailsIn(service)).toEqual(['old@x.co'])
      expect((await ask(service, 'GET /livez')).status).toBe(200)
      disk.work()
      await until(async () => (await create()).status === 201)
      expect((await create()).headers.get('Idempotency-Replayed')).toBe('true')
      expect(await emailsAfterCrash(cwd, service)).toEqual(['old@x.co', 'refused@x.co'])
    },
  )

  test.each([{ failures: 1 }, { failures: -1 }])(
    'that fails to sync ($failures): after a crash no user of a rejected create exists',
    async ({ failures }) => {
      const { cwd, disk, service } = await start()
      disk.fail({ syncs: 'EIO', failures })
      expectUnavailable(await ask(service, 'POST /users', REFUSED))
      expect(await emailsAfterCrash(cwd, service)).toEqual(['old@x.co'])
    },
  )

  test('that fails to sync as the WAL begins again: after a crash no user of a rejected create exists', async () => {
    const { cwd, disk, service } = await start()
    const writtenAt = () => statSync(join(cwd, 'data', 'users.db')).mtimeMs
    const startedAt = writtenAt()
    // Once all of the WAL is in the database, the next commit writes at its beginning, behind a header with a sync of its own.
    while (writtenAt() === startedAt) {
      expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
    }
    disk.fail({ syncs: 'EIO', passes: 1 })
    expectUnavailable(await ask(service, 'POST /users', REFUSED))
    expect(disk.failedCalls()).toBeGreaterThan(1)
    expect(await emailsAfterCrash(cwd, service)).not.toContain('refused@x.co')
  })

  test('that works again: after a crash without another write no user of a rejected create exists', async () => {
    const { cwd, disk, service } = await start()
    disk.fail({ writes: 'EIO', syncs: 'EIO', untilSync: true })
    expectUnavailable(await ask(service, 'POST /users', REFUSED))
    disk.fail({ syncs: 'EIO', passes: 1000 })
    await until(() => disk.passesLeft() < 1000, 5)
    expect(await emailsAfterCrash(cwd, service)).toEqual(['old@x.co'])
  })

  test('that fails does not prevent a clean stop, and the log warns', async () => {
    const { cwd, disk, service } = await start()
    disk.fail({ writes: 'EIO', syncs: 'EIO', truncates: 'EIO' })
    const { code, stdout, stderr } = await service.end('SIGTERM')
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/"level":"warn".*"msg":"WAL checkpoint at shutdown failed"/)
    expect(await emailsIn(await spawnService({ cwd }))).toEqual(['old@x.co'])
  })

  test('that fails to read: pages in memory are served, the rest gets 503 until it works', async () => {
    const cwd = temporaryFolder()
    makeDatabaseIn(cwd, { users: MANY_USERS })
    const { disk, service } = await startOnFailingDisk(cwd)
    const statusOf = async (path: string) => (await ask(service, `GET ${path}`)).status
    expect(await statusOf('/users/1')).toBe(200)
    disk.fail({ reads: 'EIO' })
    const far = `/users/${MANY_USERS - 1000}`
    expect(await statusOf('/users/1')).toBe(200)
    expectUnavailable(await ask(service, `GET ${far}`))
    expectUnavailable(await ask(service, `PUT ${far}`, { user: { name: 'New' } }))
    expectUnavailable(await ask(service, 'GET /users?sort=-name&per_page=1000'))
    for (const path of ['/users/1', '/livez']) expect(await statusOf(path)).toBe(200)
    await until(() => service.stdout().includes('database is damaged or unreadable'))
    disk.work()
    await until(async () => (await statusOf(far)) === 200)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  })

  test('with random faults, and crashes meanwhile, loses no acknowledged write and keeps no rejected one', async () => {
    const random = createRandom()
    const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T
    const syncFault = (): DiskFaults => ({
      ...{ syncs: 'EIO', passes: Math.floor(random() * 5), failures: pick([1, 3, -1]) },
    })
    const anyFault = (): DiskFaults => {
      const passes = Math.floor(random() * 40)
      return pick<DiskFaults>([
        { writes: 'ENOSPC', passes },
        { writes: 'EIO', syncs: 'EIO', untilSync: true },
        { writes: 'EIO', syncs: 'EIO', reads: 'EIO', truncates: 'EIO', passes },
        { shortWrites: true },
        syncFault(),
      ])
    }
    const cwd = temporaryFolder()
    const clients = createClients({ clients: 8, random })
    const wasRefused = () => Object.keys(clients.answers).some(kind => kind.includes(' 503 '))
    // On a busy machine a fault may end before any call meets it.
    for (let life = 0; life < inForm({ short: 2, long: 40 }) || !wasRefused(); life++) {
      const { disk, service } = await startOnFailingDisk(cwd)
      expect(await clients.compare(service.url)).toEqual([])
      await clients.settle(service.port)
      const writing = clients.write(service.port)
      for (let count = 0; count < inForm({ short: 3, long: 20 }); count++) {
        disk.fail(life % 2 === 0 ? anyFault() : syncFault())
        await sleep(random() * 60)
        // A disk that fails only to sync does so until the crash.
        if (life % 2 === 1) continue
        disk.work()
        await clients.untilEachHasWritten()
      }
      expect(service.process.exitCode).toBeNull()
      await Promise.all([writing, service.end('SIGKILL')])
    }
    const last = await spawnService({ cwd })
    expect(await clients.compare(last.url)).toEqual([])
    expect(clients.problems).toEqual([])
    expect(await run({ cwd, args: ['check'] })).toMatchObject({ code: 0 })
    report('a disk that fails now and then', clients.answers)
  })
})
