import { fork } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { makeDatabase } from '../faults/databases.ts'
import { newUserBody } from '../support/builders.ts'
import { overwritePages, PAGE_BYTES } from '../support/damage.ts'
import { emailsIn, execute, filesOf, modeOf } from '../support/databases.ts'
import { createFailingDisk, whyNoFailingDisk } from '../support/failing-disk.ts'
import { fillWithUsers } from '../support/fill-with-users.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canRunAsNobody, NOBODY, owner } from '../support/other-user.ts'
import { run, spawnMain, spawnService } from '../support/spawn-service.ts'

const COMMITTER = fileURLToPath(new URL('../support/committer.mjs', import.meta.url))

/** Enough for a copy and a check that take their time. */
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
  test('of a running service is one file of mode 600 that holds all it acknowledged', async () => {
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

  test('can be read where nothing may be written, and be served from as it is', async () => {
    const place = await placeWithUsers()
    await backup(place, 'copy.db')
    // Not in WAL, by the versions in the header: https://www.sqlite.org/fileformat.html#file_format_version_numbers
    expect([...readFileSync(place.file).subarray(18, 20)]).toEqual([1, 1])
    const service = await spawnService({ cwd: place.cwd, env: { DATABASE_URL: place.file } })
    expect((await ask(service, 'GET /users')).body).toHaveLength(3)
  })

  test('replaces an older one, whatever its mode, and takes away what killed ones have left', async () => {
    const place = await placeWithUsers()
    writeFileSync(place.file, 'older', { mode: 0o644 })
    // No process has a number so high.
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

  test('leaves what another backup is making beside it', async () => {
    const place = await placeWithUsers()
    const name = `copy.db.${process.pid}-0123abcd.partial`
    writeFileSync(join(place.cwd, name), 'half')
    expect((await backup(place, 'copy.db')).code).toBe(0)
    expect(filesOf(place.file)).toContain(name)
  })

  test('of an older schema keeps it, and applies nothing to the database', async () => {
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

  test('ends though another process commits all the time', async () => {
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

  test('of a service that was killed holds what is in its WAL only', async () => {
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
      line: /^".*none\/copy\.db": its folder is not there$/,
    },
    { why: 'a folder', args: ['data'], line: /^".*data": it is no file$/ },
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
      line: /^DATABASE_URL .*: it is no SQLite database$/,
    },
    {
      why: 'an empty file',
      prepare: ({ path }) => writeFileSync(path, ''),
      line: /^DATABASE_URL .*: it holds nothing yet$/,
    },
    {
      why: 'a newer schema',
      prepare: ({ path }) =>
        execute(path, `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`),
      line: /its schema is of version 99 and this release knows/,
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
    'is refused for $why in one line, and an earlier one stays',
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

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'that %s ends leaves an earlier one, and nothing beside it',
    async (signal, exitCode) => {
      const place = await placeWithUsers(MANY_USERS)
      writeFileSync(place.file, 'earlier')
      const child = spawnMain({ cwd: place.cwd, args: ['backup', 'copy.db'] })
      await vi.waitUntil(() => filesOf(place.file).length > 1, { timeout: 20_000, interval: 1 })
      child.process.kill(signal)
      expect(await child.exited).toEqual({ code: exitCode, stdout: '', stderr: '' })
      expect(readFileSync(place.file, 'utf8')).toBe('earlier')
      expect(filesOf(place.file)).toEqual(['copy.db'])
    },
  )

  test('that is killed at any moment leaves no half of one under its name, and the next one goes on', async () => {
    const place = await placeWithUsers(MANY_USERS)
    for (const delayMs of [0, 15, 60, 150]) {
      const child = spawnMain({ cwd: place.cwd, args: ['backup', 'copy.db'] })
      await vi.waitUntil(() => filesOf(place.file).length > 0 || child.process.exitCode !== null, {
        timeout: 20_000,
        interval: 1,
      })
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
if (reason !== undefined) console.log(`the disks of test/cli/backup.test.ts are skipped: ${reason}`)

describe.skipIf(reason !== undefined)('backup to a disk', () => {
  test.each([
    { what: 'is full', faults: { writes: 'ENOSPC', passes: 20 }, line: /its disk is full/ },
    { what: 'fails to write', faults: { writes: 'EIO', passes: 20 }, line: /its disk fails/ },
    { what: 'fails to sync', faults: { syncs: 'EIO' }, line: /its disk fails|cannot be/ },
  ] as const)(
    'that $what is refused in one line, and an earlier one stays',
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
  'backup into a folder without the right to write is refused in one line',
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
  'backup of a file and a folder that may only be read is made',
  async () => {
    const place = await placeWithUsers()
    // As it is while a service runs, which another user may read along with.
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

test('backup waits for a lock that another process has for a moment', async () => {
  const place = await placeWithUsers()
  const locker = new Database(place.path)
  onTestFinished(() => {
    locker.close()
  })
  locker.pragma('journal_mode = DELETE')
  locker.exec('BEGIN EXCLUSIVE')
  const finished = backup(place, 'copy.db')
  await sleep(1500)
  locker.exec('COMMIT')
  expect((await finished).code).toBe(0)
  expect(emailsIn(place.file)).toHaveLength(3)
})
