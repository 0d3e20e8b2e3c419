import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { type DiskFaults, startOnFailingDisk, whyNoFailingDisk } from '../support/failing-disk.ts'
import { inForm, isLong, report } from '../support/faults.ts'
import { ask, expectUnavailable, timeUntil } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { killAndStartAgain, type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const reason = whyNoFailingDisk()
if (reason !== undefined) console.log(`test/faults/disk.test.ts is skipped: ${reason}`)

async function emailsIn(service: SpawnedService): Promise<string[]> {
  const { body } = await ask(service, 'GET /users?per_page=1000')
  return body.map(({ email }: { email: string }) => email)
}

interface Failing {
  readonly what: string
  readonly faults: DiskFaults
}

const FAILING: readonly Failing[] = [
  { what: 'fails from a sync on', faults: { writes: 'EIO', syncs: 'EIO', untilSync: true } },
  { what: 'is full within a write', faults: { writes: 'ENOSPC', passes: 3 } },
  { what: 'is full', faults: { writes: 'ENOSPC' } },
  { what: 'fails to write', faults: { writes: 'EIO', syncs: 'EIO' } },
  { what: 'has become read-only', faults: { writes: 'EROFS', truncates: 'EROFS' } },
  { what: 'fails to sync', faults: { syncs: 'EIO' } },
]

const SYNC_FAILING: readonly Failing[] = [
  { what: 'once', faults: { syncs: 'EIO', failures: 1 } },
  { what: 'until it crashes', faults: { syncs: 'EIO' } },
]

describe.skipIf(reason !== undefined)('a disk', () => {
  const start = () => startOnFailingDisk(temporaryFolder())

  test.each(inForm({ short: FAILING.slice(0, 1), long: FAILING }))(
    'that $what: writes get 503, reads are served, and writes succeed once it works',
    async ({ what, faults }) => {
      const { cwd, disk, service } = await start()
      const old = newUserBody({ email: 'old@x.co' })
      expect((await ask(service, 'POST /users', old)).status).toBe(201)
      const refused = newUserBody({ email: 'refused@x.co' })
      const create = () => ask(service, 'POST /users', refused, { 'Idempotency-Key': 'key' })
      disk.fail(faults)
      expectUnavailable(await create())
      expectUnavailable(await ask(service, 'PUT /users/1', { user: { name: 'New' } }))
      expectUnavailable(await ask(service, 'DELETE /users/1'))
      expect(disk.failedCalls()).toBeGreaterThan(0)
      expect(await emailsIn(service)).toEqual(['old@x.co'])
      expect((await ask(service, 'GET /livez')).status).toBe(200)
      disk.work()
      const recoveryMs = await timeUntil(async () => (await create()).status === 201)
      report(`a disk that ${what}`, { recoveryMs })
      expect((await create()).headers.get('Idempotency-Replayed')).toBe('true')
      const again = await killAndStartAgain({ cwd, service })
      expect(await emailsIn(again)).toEqual(['old@x.co', 'refused@x.co'])
    },
  )

  test.each(inForm({ short: SYNC_FAILING.slice(0, 1), long: SYNC_FAILING }))(
    'that fails to sync $what: after a crash no user of a rejected create exists',
    async ({ faults }) => {
      const { cwd, disk, service } = await start()
      await ask(service, 'POST /users', newUserBody({ email: 'old@x.co' }))
      disk.fail(faults)
      expectUnavailable(await ask(service, 'POST /users', newUserBody({ email: 'refused@x.co' })))
      const again = await killAndStartAgain({ cwd, service })
      expect(await emailsIn(again)).toEqual(['old@x.co'])
    },
  )

  test('that fails does not prevent a clean stop', async () => {
    const { cwd, disk, service } = await start()
    const user = newUserBody({ email: 'old@x.co' })
    expect((await ask(service, 'POST /users', user)).status).toBe(201)
    disk.fail({ writes: 'EIO', syncs: 'EIO', truncates: 'EIO' })
    service.process.kill('SIGTERM')
    const { stdout, ...exited } = await service.exited
    expect(exited).toEqual({ code: 0, stderr: '' })
    const warning = stdout.split('\n').find(line => line.includes('WAL checkpoint at shutdown'))
    expect(JSON.parse(warning ?? '{}')).toMatchObject({
      level: 'warn',
      msg: 'WAL checkpoint at shutdown failed',
      err: { code: expect.stringMatching(/^SQLITE_IOERR/), message: 'disk I/O error' },
    })
    expect(await emailsIn(await spawnService({ cwd }))).toEqual(['old@x.co'])
  })

  test('that works again: after a crash without another write no user of a rejected create exists', async () => {
    const { cwd, disk, service } = await start()
    await ask(service, 'POST /users', newUserBody({ email: 'old@x.co' }))
    disk.fail({ writes: 'EIO', syncs: 'EIO', untilSync: true })
    expectUnavailable(await ask(service, 'POST /users', newUserBody({ email: 'refused@x.co' })))
    disk.fail({ syncs: 'EIO', passes: 1000 })
    await until(() => disk.passesLeft() < 1000, 5)
    const again = await killAndStartAgain({ cwd, service })
    expect(await emailsIn(again)).toEqual(['old@x.co'])
  })

  test.runIf(isLong)('that writes only a part of the bytes at a time loses nothing', async () => {
    const { cwd, disk, service } = await start()
    disk.fail({ shortWrites: true })
    expect((await ask(service, 'POST /users', newUserBody({ email: 'a@x.co' }))).status).toBe(201)
    const again = await killAndStartAgain({ cwd, service })
    expect(await emailsIn(again)).toEqual(['a@x.co'])
  })
})
