import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeDatabase } from '../faults/databases.ts'
import { PAGE_BYTES } from '../support/damage.ts'
import { emailsIn, execute, filesOf } from '../support/databases.ts'
import { createFailingDisk, type DiskFaults, whyNoFailingDisk } from '../support/failing-disk.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canRunAsNobody } from '../support/other-user.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { ndjson, rejectsIn, usersIn } from '../support/transfer.ts'
import { NOBODY, owner } from '../support/unprivileged-user.ts'

const whyNot = whyNoFailingDisk()
if (whyNot !== undefined) console.log(`commands on failing disks are not tested: ${whyNot}`)

/** A database, a backup of another one of 3000 users, and the empty folder `disk`. */
function place(users = 3000) {
  const cwd = temporaryFolder()
  const made = { cwd, path: join(cwd, 'data', 'users.db'), disk: join(cwd, 'disk') }
  makeDatabase(made.path, { users })
  makeDatabase(join(cwd, 'copy.db'), { users: 3000 })
  mkdirSync(made.disk)
  return made
}

/** Runs a command while the disk of a folder fails. */
async function runOnDisk(cwd: string, folder: string, args: readonly string[], faults: DiskFaults) {
  const disk = createFailingDisk(folder)
  disk.fail(faults)
  const { code, stdout, stderr } = await run({ cwd, args, env: disk.env })
  return { code, stdout, stderr, failedCalls: disk.failedCalls(), passesLeft: disk.passesLeft() }
}

async function expectSound(cwd: string): Promise<void> {
  const { stdout } = await run({ cwd, args: ['check'] })
  expect(stdout).toBe('./data/users.db: sound\n')
}

describe.skipIf(whyNot !== undefined)('on a disk', () => {
  test('without room export FILE names the file, and leaves none', async () => {
    const { cwd, disk } = place()
    const args = ['export', 'disk/users.csv']
    expect(await runOnDisk(cwd, disk, args, { writes: 'ENOSPC' })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'disk/users.csv cannot be written (ENOSPC: no space left on device)\n',
    })
    expect(readdirSync(disk)).toEqual([])
  })

  test('with room for half of the rejected rows import keeps all of them, or ends', async () => {
    const cwd = temporaryFolder()
    const good = { name: 'Ann', email: 'ann@example.com' }
    writeFileSync(join(cwd, 'users.ndjson'), ndjson([...Array(100).fill({}), good]))
    const folder = join(cwd, 'rejects')
    mkdirSync(folder)
    const args = ['import', 'users.ndjson', '--rejects', 'rejects/rejects.ndjson']
    const faults = { writes: 'ENOSPC', shortWrites: true, passes: 1 } as const
    expect(await runOnDisk(cwd, folder, args, faults)).toMatchObject({
      code: 1,
      stderr:
        '--rejects rejects/rejects.ndjson cannot be written (ENOSPC: no space left on device)\n',
    })
    expect(usersIn(cwd)).toEqual([])

    const again = await runOnDisk(cwd, folder, [...args, '--resume'], { ...faults, failures: 1 })
    expect(again).toMatchObject({ code: 3, stderr: '' })
    const lines = Array.from({ length: 100 }, (_, index) => index + 1)
    expect(rejectsIn(folder).map(({ line }) => line)).toEqual(lines)
  })

  test.each([
    ['is full', { writes: 'ENOSPC', passes: 20 }, /its disk is full/],
    ['fails to write', { writes: 'EIO', passes: 20 }, /its disk fails/],
    ['fails to sync', { syncs: 'EIO' }, /its disk fails|cannot be/],
  ] as const)(
    'that %s backup fails with one line, and an earlier one stays',
    async (_what, faults, line) => {
      const { cwd, disk } = place()
      const file = join(disk, 'copy.db')
      writeFileSync(file, 'earlier')
      const failed = await runOnDisk(cwd, disk, ['backup', file], faults)
      expect(failed).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) })
      expect(failed.stderr).toMatch(line)
      expect(failed.stderr).toContain(file)
      expect(failed.failedCalls).toBeGreaterThan(0)
      expect(readFileSync(file, 'utf8')).toBe('earlier')
      expect(filesOf(file)).toEqual(['copy.db'])
    },
  )

  test.each([0, 2, 100, 550, 700])(
    'that is full after %i writes restore fails, and the database is unchanged',
    async passes => {
      const { cwd, path } = place()
      const before = emailsIn(path)
      const faults = { writes: 'ENOSPC', passes } as const
      const failed = await runOnDisk(cwd, join(cwd, 'data'), ['restore', 'copy.db'], faults)
      expect(failed).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) })
      expect(failed.stderr).toMatch(/its disk is full/)
      expect(failed.failedCalls).toBeGreaterThan(0)
      await expectSound(cwd)
      expect(emailsIn(path)).toEqual(before)
      // If even the earlier writes cannot be undone at once, the copy stays until they are.
      const kept = filesOf(path).filter(name => name.includes('.replaced-'))
      for (const name of kept) expect(emailsIn(join(cwd, 'data', name))).toEqual(before)
      expect(filesOf(path)).toHaveLength(1 + kept.length)
    },
  )

  test.each(['WAL', 'DELETE'])(
    'that becomes full compact fails with one line, and keeps the database sound, in mode %s',
    async mode => {
      const withFreeSpace = () => {
        const made = place()
        execute(made.path, `PRAGMA journal_mode = ${mode}; DELETE FROM users WHERE id % 3 > 0`)
        return made
      }
      const compactAfter = (cwd: string, passes: number) =>
        runOnDisk(cwd, join(cwd, 'data'), ['compact'], { writes: 'ENOSPC', passes })
      const enough = 1_000_000
      const { code, passesLeft } = await compactAfter(withFreeSpace().cwd, enough)
      expect(code).toBe(0)
      const writes = enough - passesLeft
      // The first, the first of the new content, in the middle of it, and the last, into the file itself.
      for (const passes of [0, 2, Math.floor(writes / 3), Math.floor(writes * 0.6), writes - 1]) {
        const { cwd, path } = withFreeSpace()
        const failed = await compactAfter(cwd, passes)
        expect({ passes, ...failed }).toMatchObject({ passes, code: 1, stdout: '' })
        expect(failed.stderr).toMatch(/^DATABASE_URL was [^\n]+: its disk is full: [^\n]+\n$/)
        expect(failed.failedCalls).toBeGreaterThan(0)
        for (const repeat of [false, true]) {
          if (repeat) expect((await run({ cwd, args: ['compact'] })).code).toBe(0)
          await expectSound(cwd)
          expect(emailsIn(path)).toHaveLength(1000)
        }
      }
    },
    1_200_000,
  )
})

describe.skipIf(!canRunAsNobody)('without write permission', () => {
  /** Everything belongs to the user of the command; `folder` has this mode. */
  function ownedPlace(folder: string, mode: number) {
    const made = place(7)
    for (const path of ['', 'data', 'data/users.db', 'copy.db', 'disk']) {
      chownSync(join(made.cwd, path), owner.uid ?? NOBODY, owner.gid ?? NOBODY)
    }
    chmodSync(join(made.cwd, folder), mode)
    return made
  }

  test.each([
    [
      'backup',
      ['backup', 'disk/copy.db'],
      'disk',
      /^".*disk\/copy\.db": it cannot be written: .*\(EACCES\)\n$/,
    ],
    [
      'restore',
      ['restore', 'copy.db'],
      'data',
      /it cannot be written: give the user of this process.*\n$/,
    ],
    ['compact', ['compact'], 'data', /^DATABASE_URL was [^\n]+: it cannot be written: [^\n]+\n$/],
  ] as const)('%s fails with one line', async (_name, args, folder, line) => {
    const { cwd, path } = ownedPlace(folder, 0o555)
    if (args[0] === 'compact') chmodSync(path, 0o444)
    const { code, stderr } = await run({ cwd, args, ...owner })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^[^\n]+\n$/)
    expect(stderr).toMatch(line)
    expect(emailsIn(path)).toHaveLength(7)
  })

  test('backup of a read-only file in a read-only folder succeeds', async () => {
    const { cwd, path } = place(7)
    // Open, as while a service runs: another user may read the database at the same time.
    const service = await spawnService({ cwd })
    for (const ending of ['', '-wal', '-shm']) chmodSync(path + ending, 0o644)
    chmodSync(join(cwd, 'data'), 0o755)
    chmodSync(cwd, 0o777)
    const args = ['backup', 'kept.db']
    expect(await run({ cwd, args, ...owner })).toMatchObject({ code: 0, stderr: '' })
    expect(statSync(join(cwd, 'kept.db')).size % PAGE_BYTES).toBe(0)
    service.process.kill('SIGTERM')
    await service.exited
  })
})
