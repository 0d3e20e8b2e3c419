import { fork } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { makeDatabase } from '../../faults/databases.ts'
import { newUserBody } from '../../support/builders.ts'
import { overwritePages, PAGE_BYTES } from '../../support/damage.ts'
import { emailsIn, execute, filesOf, modeOf } from '../../support/databases.ts'
import { createFailingDisk, whyNoFailingDisk } from '../../support/failing-disk.ts'
import { fillWithUsers } from '../../support/fill-with-users.ts'
import { ask } from '../../support/json-requests.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { canRunAsNobody } from '../../support/other-user.ts'
import { run, signalled, spawnMain, spawnService } from '../../support/spawn-service.ts'
import { NOBODY, owner } from '../../support/unprivileged-user.ts'
import { until } from '../../support/until.ts'

const COMMITTER = fileURLToPath(new URL('../../support/committer.mjs', import.meta.url))

/** Enough to make the copy and the check slow. */
const MANY_USERS = 60_000

interface Place {
  readonly cwd: string
  readonly path: string
  readonly file: string
}

async function placeWithUsers(users = 3): Promise<Place> {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  await fillWithUsers(path, users)
  return { cwd, path, file: join(cwd, 'copy.db') }
}

function backup({ cwd }: { cwd: string }, ...args: string[]) {
  return run({ cwd, args: ['backup', ...args] })
}

describe('backup', () => {
  test('of a running service is one file of mode 600 with all acknowledged users', async () => {
    const cwd = temporaryFolder()
    const service = await spawnService({ cwd })
    await ask(service, 'POST /users', newUserBody({ email: 'one@x.co' }))
    await ask(service, 'POST /users', newUserBody({ email: 'two@x.co' }))
    const { code, stdout, stderr } = await backup({ cwd }, 'copy.db')
    expect({ code, stdout, stderr }).toMatchObject({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^copy\.db: [\d.]+ MB, checked\n$/)
    const file = join(cwd, 'copy.db')
    expect(emailsIn(file)).toEqual(['one@x.co', 'two@x.co'])
    expect(filesOf(file)).toEqual(['copy.db'])
    expect(modeOf(file)).toBe(0o600)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  })

  test('--json prints the same for programs', async () => {
    const place = await placeWithUsers()
    const { code, stdout, stderr } = await backup(place, 'copy.db', '--json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(JSON.parse(stdout)).toEqual({ file: 'copy.db', bytes: statSync(place.file).size })
    expect(await backup(place, 'nowhere/copy.db', '--json')).toMatchObject({ code: 1, stdout: '' })
  })

  test('can be read from a read-only folder, and be served unchanged', async () => {
    const place = await placeWithUsers()
    await backup(place, 'copy.db')
    // Not in WAL, by the versions in the header: https://www.sqlite.org/fileformat.html#file_format_version_numbers
    expect([...readFileSync(place.file).subarray(18, 20)]).toEqual([1, 1])
    const service = await spawnService({ cwd: place.cwd, env: { DATABASE_URL: place.file } })
    expect((await ask(service, 'GET /users')).body).toHaveLength(3)
  })

  test('replaces an older one, whatever its mode, and removes the partial files of killed ones', async () => {
    const place = await placeWithUsers()
    writeFileSync(place.file, 'older', { mode: 0o644 })
    // No process has such a high number.
    const leftovers = [
      'copy.db.4194305-0123abcd.partial',
      'copy.db.4194305-0123abcd.partial-journal',
    ]
    for (const name of leftovers) writeFileSync(join(place.cwd, name), 'half')
    writeFileSync(join(place.cwd, 'copy.db.note.partial'), 'of somebody')
    expect((await backup(place, place.file)).code).toBe(0)
    expect(emailsIn(place.file)).toHaveLength(3)
    expect(modeOf(place.file)).toBe(0o600)
    expect(filesOf(place.file)).toEqual(['copy.db', 'copy.db.note.partial'])
  })

  test('leaves the partial file of another running backup', async () => {
    const place = await placeWithUsers()
    const name = `copy.db.${process.pid}-0123abcd.partial`
    writeFileSync(join(place.cwd, name), 'half')
    expect((await backup(place, 'copy.db')).code).toBe(0)
    expect(filesOf(place.file)).toContain(name)
  })

  test('of an older schema keeps it, and migrates nothing', async () => {
    const cwd = temporaryFolder()
    const older = { cwd, path: join(cwd, 'data', 'users.db'), file: join(cwd, 'copy.db') }
    makeDatabase(older.path, { users: 5, migrations: 2 })
    const before = readFileSync(older.path)
    expect((await backup(older, 'copy.db')).code).toBe(0)
    expect(readFileSync(older.path).equals(before)).toBe(true)
    const { stdout } = await run({
      cwd,
      args: ['migrate', '--status'],
      env: { DATABASE_URL: older.file },
    })
    expect(stdout.match(/applied/g)).toHaveLength(2)
  })

  test('ends although another process commits all the time', async () => {
    const place = await placeWithUsers(MANY_USERS)
    const writer = fork(COMMITTER, [place.path])
    onTestFinished(() => {
      writer.kill('SIGKILL')
    })
    await once(writer, 'message')
    expect((await backup(place, 'copy.db')).code).toBe(0)
    expect(writer.exitCode).toBe(null)
    expect(emailsIn(place.file)).toHaveLength(MANY_USERS)
  })

  test('of a killed service includes what is only in its WAL', async () => {
    const cwd = temporaryFolder()
    const service = await spawnService({ cwd })
    await ask(service, 'POST /users', newUserBody({ email: 'one@x.co' }))
    service.process.kill('SIGKILL')
    await service.exited
    expect((await backup({ cwd }, 'copy.db')).code).toBe(0)
    expect(emailsIn(join(cwd, 'copy.db'))).toEqual(['one@x.co'])
  })

  test.each<{
    why: string
    args?: string[]
    url?: string
    prepare?: (place: Place) => unknown
    line: RegExp
  }>([
    {
      why: 'a database in memory',
      url: ':memory:',
      line: /^DATABASE_URL was ":memory:": such a database is in the memory/,
    },
    {
      why: 'no database',
      url: 'file:./none/users.db',
      line: /^DATABASE_URL was .*: there is no such file$/,
    },
    {
      why: 'no folder',
      args: ['none/copy.db'],
      line: /^".*none\/copy\.db": its folder does not exist$/,
    },
    { why: 'a folder', args: ['data'], line: /^".*data": it is not a regular file$/ },
    { why: 'the database itself', args: ['data/users.db'], line: /: it is the database itself$/ },
    {
      why: 'its WAL',
      args: ['data/users.db-wal'],
      prepare: ({ path }) => writeFileSync(`${path}-wal`, ''),
      line: /: it is the database itself$/,
    },
    {
      why: 'a text',
      prepare: ({ path }) => writeFileSync(path, 'a text that is longer than a header of SQLite'),
      line: /^DATABASE_URL .*: it is not a SQLite database$/,
    },
    {
      why: 'an empty file',
      prepare: ({ path }) => writeFileSync(path, ''),
      line: /^DATABASE_URL .*: it is empty$/,
    },
    {
      why: 'a newer schema',
      prepare: ({ path }) =>
        execute(path, `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`),
      line: /its schema version 99 is from a newer release/,
    },
    {
      why: 'the database of another program',
      url: 'other.db',
      prepare: ({ cwd }) => execute(join(cwd, 'other.db'), 'CREATE TABLE songs (name)'),
      line: /it is the database of another program$/,
    },
    {
      why: 'damage',
      prepare: ({ path }) => overwritePages(path, 'garbage ', { from: 2, to: 4 }),
      line: /^DATABASE_URL .*: it is (?:damaged|not sound)/,
    },
  ])(
    'with $why fails with one line, and an earlier one stays',
    async ({ args = ['copy.db'], url, prepare, line }) => {
      const place = await placeWithUsers()
      writeFileSync(place.file, 'earlier')
      prepare?.(place)
      const { cwd } = place
      const { code, stdout, stderr } = await run({
        cwd,
        args: ['backup', ...args],
        ...(url !== undefined && { env: { DATABASE_URL: url } }),
      })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr.trimEnd()).toMatch(line)
      expect(stderr.trimEnd()).not.toContain('\n')
      expect(readFileSync(place.file, 'utf8')).toBe('earlier')
      expect(filesOf(place.file)).toEqual(['copy.db'])
      expect(existsSync(join(cwd, 'none'))).toBe(false)
    },
  )

  test.each([{ args: [] }, { args: ['one', 'two'] }, { args: [''] }])(
    'with $args is a wrong command line',
    async ({ args }) => {
      const place = await placeWithUsers()
      expect((await backup(place, ...args)).code).toBe(2)
    },
  )

  test.each(['SIGINT', 'SIGTERM'] as const)(
    'ended by %s leaves an earlier one, and the next one removes the rest',
    async signal => {
      const tryOnce = async () => {
        const { cwd, file } = await placeWithUsers(MANY_USERS)
        writeFileSync(file, 'earlier')
        const begun = () => filesOf(file).length > 1
        return {
          cwd,
          file,
          ...(await signalled(signal, { cwd, args: ['backup', 'copy.db'], begun })),
        }
      }
      const { cwd, file, ...finished } = await until(async () => {
        const tried = await tryOnce()
        return tried.code === 0 ? undefined : tried
      })
      expect(finished).toEqual({ code: null, stdout: '', stderr: '' })
      expect(readFileSync(file, 'utf8')).toBe('earlier')
      expect((await run({ cwd, args: ['backup', 'copy.db'] })).code).toBe(0)
      expect(filesOf(file)).toEqual(['copy.db'])
    },
  )

  test('killed at any moment leaves no partial file under its name, and the next one succeeds', async () => {
    const place = await placeWithUsers(MANY_USERS)
    for (const delayMs of [0, 15, 60, 150]) {
      const child = spawnMain({ cwd: place.cwd, args: ['backup', 'copy.db'] })
      await until(() => filesOf(place.file).length > 0 || child.process.exitCode !== null, 1)
      await sleep(delayMs)
      child.process.kill('SIGKILL')
      await child.exited
      if (existsSync(place.file)) expect(emailsIn(place.file)).toHaveLength(MANY_USERS)
    }
    expect((await backup(place, 'copy.db')).code).toBe(0)
    expect(emailsIn(place.file)).toHaveLength(MANY_USERS)
    expect(filesOf(place.file)).toEqual(['copy.db'])
  })
})

const reason = whyNoFailingDisk()
if (reason !== undefined)
  console.log(`the disks of test/cli/database/backup.test.ts are skipped: ${reason}`)

describe.skipIf(reason !== undefined)('backup to a disk', () => {
  test.each([
    { what: 'is full', faults: { writes: 'ENOSPC', passes: 20 }, line: /its disk is full/ },
    { what: 'fails to write', faults: { writes: 'EIO', passes: 20 }, line: /its disk fails/ },
    { what: 'fails to sync', faults: { syncs: 'EIO' }, line: /its disk fails|cannot be/ },
  ] as const)(
    'that $what fails with one line, and an earlier one stays',
    async ({ faults, line }) => {
      const place = await placeWithUsers(2000)
      const folder = join(place.cwd, 'copies')
      mkdirSync(folder)
      const file = join(folder, 'copy.db')
      writeFileSync(file, 'earlier')
      const disk = createFailingDisk(folder)
      disk.fail(faults)
      const { code, stderr } = await run({ cwd: place.cwd, args: ['backup', file], env: disk.env })
      expect([code, stderr.trimEnd().split('\n').length]).toEqual([1, 1])
      expect(stderr).toMatch(line)
      expect(stderr).toContain(file)
      expect(disk.failedCalls()).toBeGreaterThan(0)
      expect(readFileSync(file, 'utf8')).toBe('earlier')
      expect(filesOf(file)).toEqual(['copy.db'])
    },
  )
})

test.skipIf(!canRunAsNobody)(
  'backup into a folder without write permission fails with one line',
  async () => {
    const place = await placeWithUsers()
    for (const path of ['', 'data', 'data/users.db'])
      chownSync(join(place.cwd, path), owner.uid ?? NOBODY, owner.gid ?? NOBODY)
    const folder = join(place.cwd, 'copies')
    mkdirSync(folder)
    chmodSync(folder, 0o555)
    const { code, stderr } = await run({
      cwd: place.cwd,
      args: ['backup', 'copies/copy.db'],
      ...owner,
    })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^".*copies\/copy\.db": it cannot be written: .*\(EACCES\)\n$/)
  },
)

test.skipIf(!canRunAsNobody)(
  'backup of a read-only file in a read-only folder succeeds',
  async () => {
    const place = await placeWithUsers()
    // Open, as while a service runs: another user may read the database at the same time.
    const service = await spawnService({ cwd: place.cwd })
    for (const ending of ['', '-wal', '-shm']) chmodSync(place.path + ending, 0o644)
    chmodSync(join(place.cwd, 'data'), 0o755)
    chmodSync(place.cwd, 0o777)
    const { code, stderr } = await run({ cwd: place.cwd, args: ['backup', 'copy.db'], ...owner })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(statSync(place.file).size % PAGE_BYTES).toBe(0)
    service.process.kill('SIGTERM')
    await service.exited
  },
)

test('backup waits for a short lock of another process', async () => {
  const place = await placeWithUsers()
  const locker = new Database(place.path)
  onTestFinished(() => {
    locker.close()
  })
  locker.pragma('journal_mode = DELETE')
  locker.exec('BEGIN EXCLUSIVE')
  const child = spawnMain({ cwd: place.cwd, args: ['backup', 'copy.db'] })
  const { pid } = child.process
  // Only Linux shows it; elsewhere the backup may not have met the lock yet.
  const isOpen = () =>
    readdirSync(`/proc/${pid}/fd`)
      .map(fd => readlinkIfThere(`/proc/${pid}/fd/${fd}`))
      .includes(place.path)
  if (process.platform === 'linux') await until(isOpen, 1)
  locker.exec('COMMIT')
  expect((await child.exited).code).toBe(0)
  expect(emailsIn(place.file)).toHaveLength(3)
})

function readlinkIfThere(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}
