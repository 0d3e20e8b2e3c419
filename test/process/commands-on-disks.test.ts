import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { emailsIn, execute, filesOf, makeDatabase, makeDatabaseIn } from '../support/databases.ts'
import { createFailingDisk, type DiskFaults } from '../support/failing-disk.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canFailDisks } from '../support/programs.ts'
import { runCommand } from '../support/run-command.ts'
import { MAIN, run, spawnService } from '../support/spawn-service.ts'
import { ndjson, rejectsIn, usersIn } from '../support/transfer.ts'
import { canRunAsNobody, NOBODY, owner } from '../support/unprivileged-user.ts'

/** A database of which two thirds are free space, a backup of another one, and the empty folder `disk`. */
function place({ users = 300, mode = 'WAL' } = {}) {
  const cwd = temporaryFolder()
  const path = makeDatabaseIn(cwd, { users: 3 * users })
  execute(path, `PRAGMA journal_mode = ${mode}; DELETE FROM users WHERE id % 3 > 0`)
  makeDatabase(join(cwd, 'copy.db'), { users: 900 })
  mkdirSync(join(cwd, 'disk'))
  return { cwd, path }
}

/** Runs a command while the disk of a folder fails. */
async function runOnDisk(cwd: string, folder: string, args: readonly string[], faults: DiskFaults) {
  const disk = createFailingDisk(join(cwd, folder))
  disk.fail(faults)
  const { code, stdout, stderr } = await run({ cwd, args, env: disk.env })
  return { code, stdout, stderr, failedCalls: disk.failedCalls(), passesLeft: disk.passesLeft() }
}

describe.skipIf(!canFailDisks)('on a disk', () => {
  test('without room export FILE names the file, and leaves none', async () => {
    const { cwd } = place()
    const args = ['export', 'disk/users.csv']
    expect(await runOnDisk(cwd, 'disk', args, { writes: 'ENOSPC' })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'disk/users.csv cannot be written (ENOSPC: no space left on device)\n',
    })
    expect(readdirSync(join(cwd, 'disk'))).toEqual([])
  })

  test('with room for half of the rejected rows import keeps all of them, or ends', async () => {
    const cwd = temporaryFolder()
    const good = { name: 'Ann', email: 'ann@example.com' }
    writeFileSync(join(cwd, 'users.ndjson'), ndjson([...Array(100).fill({}), good]))
    mkdirSync(join(cwd, 'disk'))
    const args = ['import', 'users.ndjson', '--rejects', 'disk/rejects.ndjson']
    const faults = { writes: 'ENOSPC', shortWrites: true, passes: 1 } as const
    expect(await runOnDisk(cwd, 'disk', args, faults)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^columns: .*\n--rejects disk\/rejects.ndjson cannot be written \(ENOSPC: no space left on device\)\n$/,
      ),
    })
    expect(usersIn(cwd)).toEqual([])
    const again = await runOnDisk(cwd, 'disk', [...args, '--resume'], { ...faults, failures: 1 })
    expect(again).toMatchObject({ code: 3, stderr: expect.stringMatching(/^columns: .*\n$/) })
    const lines = Array.from({ length: 100 }, (_, index) => index + 1)
    expect(rejectsIn(join(cwd, 'disk')).map(({ line }) => line)).toEqual(lines)
  })

  test.each([
    ['is full', { writes: 'ENOSPC', passes: 20 }, /copy\.db.*: its disk is full/],
    ['fails to write', { writes: 'EIO', passes: 20 }, /copy\.db.*: its disk fails/],
    ['fails to sync', { syncs: 'EIO' }, /copy\.db.*: (?:its disk fails|.*cannot be)/],
  ] as const)(
    'that %s backup fails with one line, and an earlier one stays',
    async (_, faults, line) => {
      const { cwd } = place()
      const file = join(cwd, 'disk', 'copy.db')
      writeFileSync(file, 'earlier')
      const failed = await runOnDisk(cwd, 'disk', ['backup', file], faults)
      expect(failed).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) })
      expect(failed.stderr).toMatch(line)
      expect(failed.failedCalls).toBeGreaterThan(0)
      expect(readFileSync(file, 'utf8')).toBe('earlier')
      expect(filesOf(file)).toEqual(['copy.db'])
    },
  )

  // The shares are of the writes of a command that succeeds.
  test.each([
    ['restore', 'DELETE', [0, 0.1, 0.5, 0.9]],
    ['compact', 'WAL', [0, 0.3, 0.6, 1]],
    ['compact', 'DELETE', [0, 0.6, 1]],
  ] as const)(
    'that becomes full %s fails with one line, and keeps the database sound, in mode %s',
    async (name, mode, shares) => {
      const args = name === 'restore' ? ['restore', 'copy.db'] : ['compact']
      const runAfter = (cwd: string, passes: number) =>
        runOnDisk(cwd, 'data', args, { writes: 'ENOSPC', passes })
      const enough = 1_000_000
      const { code, passesLeft } = await runAfter(place({ mode }).cwd, enough)
      expect(code).toBe(0)
      for (const share of shares) {
        const { cwd, path } = place({ mode })
        const before = emailsIn(path)
        const passes = Math.floor((enough - passesLeft - 1) * share)
        const failed = await runAfter(cwd, passes)
        expect({ passes, ...failed }).toMatchObject({ passes, code: 1, stdout: '' })
        expect(failed.stderr).toMatch(/^DATABASE_URL was [^\n]+: its disk is full: [^\n]+\n$/)
        expect(failed.failedCalls).toBeGreaterThan(0)
        expect((await runCommand({ cwd, args: ['check'] })).stdout).toMatch(/: sound\n$/)
        expect(emailsIn(path)).toEqual(before)
        expect(filesOf(path).filter(file => /\.(?:replaced-|.*partial$)/.test(file))).toEqual([])
        expect(await runCommand({ cwd, args })).toMatchObject({ code: 0 })
      }
    },
  )
})

const canMount = spawnSync('unshare', ['--mount', 'true']).status === 0
if (!canMount) console.log('files that are mounted alone are not tested: mounting is not allowed')

/** Runs a command in a folder where something is mounted first. */
function runMounted(cwd: string, mount: string, command: string, env = {}) {
  const script = `${mount} && exec '${process.execPath}' '${MAIN}' ${command}`
  const { status, stderr } = spawnSync('unshare', ['--mount', 'sh', '-c', script], {
    ...{ cwd, env: { PATH: process.env.PATH, ...env }, encoding: 'utf8' },
  })
  return [status, stderr]
}

test.skipIf(!canMount).each([
  ['EXDEV', 7],
  ['EBUSY', 0],
])(
  'restore of a file that is mounted alone fails with one line (%s), and changes nothing',
  (code, users) => {
    const { cwd, path } = place({ users: 7 })
    const mounted = join(cwd, 'disk', 'mounted.db')
    if (users > 0) copyFileSync(path, mounted)
    else writeFileSync(mounted, '')
    const line = `no other file can take its place (${code}): if it is mounted alone, mount its folder instead; otherwise move it away\n`
    expect(runMounted(cwd, `mount --bind '${mounted}' '${path}'`, 'restore copy.db')).toEqual([
      ...[1, `DATABASE_URL was "file:./data/users.db": ${line}`],
    ])
    expect(filesOf(path)).toEqual(['users.db'])
    expect(users === 0 || emailsIn(mounted).length === users).toBe(true)
  },
)

test.skipIf(!canMount)('a disk that is mounted read-only is named', () => {
  const { cwd } = place({ users: 1 })
  const readOnly = 'mount --bind disk disk && mount -o remount,bind,ro disk'
  const why = 'its disk is mounted read-only: mount it for writing, or choose another one (EROFS)'
  expect(runMounted(cwd, readOnly, 'migrate', { DATABASE_URL: 'disk/new.db' })).toEqual([
    ...[1, `DATABASE_URL was "disk/new.db": ${why}\n`],
  ])
})

describe.skipIf(!canRunAsNobody())('without write permission', () => {
  const CANNOT = /^DATABASE_URL was [^\n]+ it cannot be written: give the user of this process/

  test.each<[args: string, modes: Readonly<Record<string, number>>, line: RegExp]>([
    ['serve --port 0', { data: 0o555 }, CANNOT],
    ['serve --port 0', { 'data/users.db': 0o444 }, CANNOT],
    ['restore copy.db', { data: 0o555 }, CANNOT],
    ['compact', { data: 0o555, 'data/users.db': 0o444 }, CANNOT],
    [
      'backup disk/copy.db',
      { disk: 0o555 },
      /^".*disk\/copy\.db": it cannot be written: .*\(EACCES\)/,
    ],
  ])('%s with %j fails with one line', async (args, modes, line) => {
    const { cwd, path } = place({ users: 7 })
    for (const name of ['', 'data', 'data/users.db', 'copy.db', 'disk']) {
      chownSync(join(cwd, name), owner.uid ?? NOBODY, owner.gid ?? NOBODY)
    }
    for (const [name, mode] of Object.entries(modes)) chmodSync(join(cwd, name), mode)
    const { code, stderr } = await run({ cwd, args: args.split(' '), ...owner })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^[^\n]+\n$/)])
    expect(stderr).toMatch(line)
    expect(emailsIn(path)).toHaveLength(7)
  })

  test('restore leaves the database to its owner, whoever runs it', async () => {
    const { cwd, path } = place({ users: 7 })
    const uid = owner.uid ?? statSync(path).uid
    chownSync(path, uid, statSync(path).gid)
    expect(await run({ cwd, args: ['restore', 'copy.db'] })).toMatchObject({ code: 0 })
    const { mode, ...stats } = statSync(path)
    expect([stats.uid, mode & 0o777, emailsIn(path).length]).toEqual([uid, 0o600, 900])
  })

  test('backup of a read-only file in a read-only folder succeeds', async () => {
    const { cwd, path } = place({ users: 7 })
    // Open, as while a service runs: another user may read the database at the same time.
    await spawnService({ cwd })
    for (const ending of ['', '-wal', '-shm']) chmodSync(path + ending, 0o644)
    chmodSync(join(cwd, 'data'), 0o755)
    chmodSync(cwd, 0o777)
    const args = ['backup', 'kept.db']
    expect(await run({ cwd, args, ...owner })).toMatchObject({ code: 0, stderr: '' })
    expect(emailsIn(join(cwd, 'kept.db'))).toHaveLength(7)
  })
})
