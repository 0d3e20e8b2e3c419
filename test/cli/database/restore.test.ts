import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { copyDatabase, makeDatabase } from '../../faults/databases.ts'
import { newUserBody } from '../../support/builders.ts'
import { overwritePages } from '../../support/damage.ts'
import { emailsIn, execute, filesOf, modeOf } from '../../support/databases.ts'
import { createFailingDisk, whyNoFailingDisk } from '../../support/failing-disk.ts'
import { createRandom, inForm } from '../../support/faults.ts'
import { ask } from '../../support/json-requests.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { canRunAsNobody } from '../../support/other-user.ts'
import { run, signalled, spawnMain, spawnService } from '../../support/spawn-service.ts'
import { owner } from '../../support/unprivileged-user.ts'
import { until } from '../../support/until.ts'

const OLD_USERS = 7

const NEW_USERS = 5

const LONG_MS = 1_200_000

const RACES = inForm({ short: 3, long: 40 })

const KILLS = inForm({ short: 4, long: 60 })

/** Enough to make a restore slow. */
const MANY_USERS = 40_000

interface Place {
  readonly cwd: string
  readonly path: string
  readonly file: string
}

/** A database, and a backup of another one with this many users. */
function placeWithBackup({
  old = OLD_USERS,
  users = NEW_USERS,
  ...schema
}: {
  old?: number
  users?: number
  migrations?: number
} = {}): Place {
  const cwd = temporaryFolder()
  const place = { cwd, path: join(cwd, 'data', 'users.db'), file: join(cwd, 'copy.db') }
  mkdirSync(join(cwd, 'data'))
  if (old > 0) makeDatabase(place.path, { users: old })
  makeDatabase(place.file, { users, ...schema })
  return place
}

function restore({ cwd }: { cwd: string }, file = 'copy.db') {
  return run({ cwd, args: ['restore', file] })
}

function keptIn({ path, cwd }: Place): string[] {
  return filesOf(path)
    .filter(name => name.includes('.replaced-'))
    .map(name => join(cwd, 'data', name))
}

describe('restore', () => {
  test('replaces the database with the backup, keeps the previous one, and says where', async () => {
    const place = placeWithBackup()
    chmodSync(place.path, 0o644)
    const before = readFileSync(place.file)
    const { code, stdout, stderr } = await restore(place)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const [kept = ''] = keptIn(place)
    expect(stdout).toBe(`./data/users.db: restored from copy.db\n${kept}: the previous database\n`)
    expect(kept).toMatch(/users\.db\.replaced-\d{8}T\d{6}Z$/)
    expect(filesOf(place.path)).toHaveLength(2)
    expect(emailsIn(kept)).toHaveLength(OLD_USERS)
    expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
    expect([modeOf(place.path), modeOf(kept)]).toEqual([0o600, 0o600])
    expect(readFileSync(place.file).equals(before)).toBe(true)
    const service = await spawnService({ cwd: place.cwd })
    expect((await ask(service, 'GET /users')).body).toHaveLength(NEW_USERS)
  })

  test('--json prints the same for programs', async () => {
    const place = placeWithBackup({ migrations: 3 })
    const printed = async () => {
      const args = ['restore', 'copy.db', '--json']
      const { code, stdout, stderr } = await run({ cwd: place.cwd, args })
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      return JSON.parse(stdout)
    }
    const restored = { database: './data/users.db', backup: 'copy.db' }
    const first = await printed()
    expect(first).toEqual({
      ...restored,
      kept: keptIn(place)[0],
      pending: expect.arrayContaining(['0004_keep_bans']),
    })
    rmSync(place.path)
    expect(await printed()).toMatchObject({ ...restored, kept: null })
  })

  test('creates what is missing if there was no database', async () => {
    const place = placeWithBackup({ old: 0 })
    rmSync(join(place.cwd, 'data'), { recursive: true })
    const { code, stdout } = await restore(place)
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: './data/users.db: restored from copy.db\n',
    })
    expect(filesOf(place.path)).toEqual(['users.db'])
    expect(modeOf(place.path)).toBe(0o600)
    expect(modeOf(join(place.cwd, 'data'))).toBe(0o700)
  })

  test('moves the WAL of the previous database into its copy', async () => {
    const place = placeWithBackup({ old: 0 })
    const service = await spawnService({ cwd: place.cwd })
    await ask(service, 'POST /users', newUserBody({ email: 'in-wal@x.co' }))
    service.process.kill('SIGKILL')
    await service.exited
    expect((await restore(place)).code).toBe(0)
    expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
    expect(emailsIn(keptIn(place)[0] ?? '')).toEqual(['in-wal@x.co'])
    expect(filesOf(place.path)).toHaveLength(2)
  })

  test('of an older schema lists what is pending, which the next start applies', async () => {
    const place = placeWithBackup({ migrations: 1 })
    const { code, stdout } = await restore(place)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^pending, .*: 0002_list_users, 0003_\w+, 0004_\w+/m)
    const service = await spawnService({ cwd: place.cwd })
    expect((await ask(service, 'GET /users')).body).toHaveLength(NEW_USERS)
  })

  test('makes no list look like one that a client has cached', async () => {
    const place = placeWithBackup()
    const first = await spawnService({ cwd: place.cwd })
    const { headers } = await ask(first, 'GET /users')
    first.process.kill('SIGTERM')
    await first.exited
    expect((await restore(place)).code).toBe(0)
    const second = await spawnService({ cwd: place.cwd })
    // The same number of changes as in the first database.
    for (let count = 0; count < OLD_USERS - NEW_USERS; count++) {
      await ask(second, 'POST /users', newUserBody())
    }
    const ifNoneMatch = { 'If-None-Match': headers.get('ETag') ?? '' }
    expect((await ask(second, 'GET /users', undefined, ifNoneMatch)).status).toBe(200)
  })

  test('begins after the previous list revisions, whatever the clock says', async () => {
    const place = placeWithBackup()
    execute(place.path, 'UPDATE users_summary SET revision = 9000000000000')
    expect((await restore(place)).code).toBe(0)
    const service = await spawnService({ cwd: place.cwd })
    const { headers } = await ask(service, 'GET /users')
    expect(headers.get('ETag')).toMatch(/^"[0-9a-f]{12}-9000000000001"$/)
  })

  test('repairs a database whose pages are damaged, and keeps it', async () => {
    const place = placeWithBackup({ old: 2000 })
    overwritePages(place.path, 'garbage ', { from: 3, to: 30 })
    expect((await restore(place)).code).toBe(0)
    expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
    expect(readFileSync(keptIn(place)[0] ?? '', 'latin1')).toContain('garbage garbage')
  })

  test('treats an empty file as no database', async () => {
    const place = placeWithBackup({ old: 0 })
    writeFileSync(place.path, '')
    expect((await restore(place)).code).toBe(0)
    expect(filesOf(place.path)).toEqual(['users.db'])
    expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
  })

  test('replaces the file that a link leads to', async () => {
    const place = placeWithBackup({ old: 0 })
    const real = join(place.cwd, 'real.db')
    makeDatabase(real, { users: OLD_USERS })
    symlinkSync(real, place.path)
    expect((await restore(place)).code).toBe(0)
    expect(emailsIn(real)).toHaveLength(NEW_USERS)
    expect(filesOf(place.path)).toEqual(['users.db'])
  })

  test('twice keeps both', async () => {
    const place = placeWithBackup()
    for (let count = 0; count < 2; count++) expect((await restore(place)).code).toBe(0)
    expect(keptIn(place)).toHaveLength(2)
  })

  test.each<{ why: string; prepare: (place: Place) => unknown; line: RegExp; file?: string }>([
    {
      why: 'no file',
      prepare: ({ file }) => rmSync(file),
      line: /^".*copy\.db": there is no such file$/,
    },
    {
      why: 'a folder',
      prepare: () => {},
      file: 'data',
      line: /^".*data": it is not a regular file$/,
    },
    {
      why: 'the database itself',
      prepare: () => {},
      file: 'data/users.db',
      line: /^".*users\.db": it is the database itself$/,
    },
    {
      why: 'a text',
      prepare: ({ file }) => writeFileSync(file, 'a text'),
      line: /^".*copy\.db": it is not a SQLite database$/,
    },
    {
      why: 'an empty file',
      prepare: ({ file }) => writeFileSync(file, ''),
      line: /^".*copy\.db": it is empty$/,
    },
    {
      why: 'damage',
      prepare: ({ file }) => overwritePages(file, 'garbage ', { from: 2, to: 5 }),
      line: /^".*copy\.db": /,
    },
    {
      why: 'an end that is missing',
      prepare: ({ file }) => truncateSync(file, 3 * 4096),
      line: /^".*copy\.db": /,
    },
    {
      why: 'a newer schema',
      prepare: ({ file }) =>
        execute(file, `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`),
      line: /copy\.db": its schema version 99 is from a newer release/,
    },
    {
      why: 'the database of another program',
      prepare: ({ file }) => {
        rmSync(file)
        execute(file, 'CREATE TABLE songs (name)')
      },
      line: /copy\.db": it is the database of another program$/,
    },
    {
      why: 'a part that is in a WAL',
      prepare: ({ file }) => writeFileSync(`${file}-wal`, 'x'),
      line: /copy\.db": a part of it is in .*copy\.db-wal: take a `backup` of it$/,
    },
    {
      why: 'a link to a database of which a part is in a WAL',
      prepare: ({ file }) => {
        renameSync(file, `${file}.target`)
        symlinkSync(`${file}.target`, file)
        writeFileSync(`${file}.target-wal`, 'x')
      },
      line: /copy\.db": a part of it is in .*copy\.db\.target-wal: take a `backup` of it$/,
    },
    {
      why: 'a database that cannot be read',
      prepare: ({ path }) => overwritePages(path, 'garbage ', { from: 0 }),
      line: /^DATABASE_URL .*: it cannot be read, .* move that file/,
    },
    {
      why: 'a WAL without its database',
      prepare: ({ path }) => {
        rmSync(path)
        writeFileSync(`${path}-wal`, 'x')
      },
      line: /^DATABASE_URL .*users\.db-wal exists without the database: move it away$/,
    },
  ])('with $why fails with one line, and changes nothing', async ({ prepare, line, file }) => {
    const place = placeWithBackup()
    prepare(place)
    const before = existsSync(place.path) && readFileSync(place.path)
    const names = filesOf(place.path)
    const { code, stdout, stderr } = await restore(place, file)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr.trimEnd()).toMatch(line)
    expect(stderr.trimEnd()).not.toContain('\n')
    expect(existsSync(place.path) && readFileSync(place.path)).toEqual(before)
    expect(filesOf(place.path)).toEqual(names)
  })

  test('fails for a database in memory', async () => {
    const { cwd } = placeWithBackup()
    const env = { DATABASE_URL: ':memory:' }
    const { code, stderr } = await run({ cwd, args: ['restore', 'copy.db'], env })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory .*\n$/)
  })

  test('fails while a service runs, also an idle one, and that continues', async () => {
    const place = placeWithBackup()
    const service = await spawnService({ cwd: place.cwd })
    const { code, stderr } = await restore(place)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^DATABASE_URL .*: a process has it open: stop the service first\n$/)
    expect((await ask(service, 'GET /users')).body).toHaveLength(OLD_USERS)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  })

  test(
    'and a start at the same time leave a service that serves all of one database or the other',
    async () => {
      const random = createRandom()
      for (let round = 0; round < RACES; round++) {
        const place = placeWithBackup({ old: 2000, users: 4000 })
        const restoring = spawnMain({ cwd: place.cwd, args: ['restore', 'copy.db'] })
        await sleep(random() * 900)
        const service = await spawnService({ cwd: place.cwd })
        const { code, stderr } = await restoring.exited
        const { headers } = await ask(service, 'GET /users?count=true')
        expect([code, headers.get('X-Total-Count')]).toEqual(code === 0 ? [0, '4000'] : [1, '2000'])
        if (code !== 0) expect(stderr).toContain('a process has it open')
        expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
        service.process.kill('SIGTERM')
        await service.exited
        expect((await run({ cwd: place.cwd, args: ['check'] })).stdout).toContain('sound')
      }
    },
    LONG_MS,
  )

  test('fails while another program has the database open', async () => {
    const place = placeWithBackup()
    const other = new Database(place.path)
    onTestFinished(() => {
      other.close()
    })
    other.exec('BEGIN; SELECT * FROM users')
    other.prepare('SELECT * FROM users').all()
    expect((await restore(place)).stderr).toContain('a process has it open')
  })

  test.each(['SIGINT', 'SIGTERM'] as const)(
    'ended by %s leaves the database, and the next one succeeds',
    async signal => {
      const tryOnce = async () => {
        const { cwd, path } = placeWithBackup({ users: MANY_USERS })
        const begun = () => filesOf(path).length > 1
        return {
          cwd,
          path,
          ...(await signalled(signal, { cwd, args: ['restore', 'copy.db'], begun })),
        }
      }
      const { cwd, path, ...finished } = await until(async () => {
        const tried = await tryOnce()
        return tried.code === 0 ? undefined : tried
      })
      expect(finished).toEqual({ code: null, stdout: '', stderr: '' })
      expect([OLD_USERS, MANY_USERS]).toContain(emailsIn(path).length)
      expect((await run({ cwd, args: ['restore', 'copy.db'] })).code).toBe(0)
      expect(emailsIn(path)).toHaveLength(MANY_USERS)
      expect(filesOf(path).filter(name => name.includes('.partial'))).toEqual([])
    },
  )

  test(
    'that is killed while it replaces leaves all of the old database or all of the new one',
    async () => {
      const random = createRandom()
      const prepared = placeWithBackup({ old: MANY_USERS, users: MANY_USERS + 1 })
      for (let round = 0; round < KILLS; round++) {
        const cwd = temporaryFolder()
        const place = { ...prepared, cwd, path: join(cwd, 'data', 'users.db') }
        copyDatabase(prepared.path, place.path)
        const child = spawnMain({ cwd, args: ['restore', prepared.file] })
        // The journal exists while the content is replaced.
        const isReplacing = () => filesOf(place.path).includes('users.db-journal')
        await until(() => isReplacing() || child.process.exitCode !== null, 1)
        await sleep(random() * 250)
        child.process.kill('SIGKILL')
        await child.exited
        const { code, stdout } = await run({ cwd, args: ['check'] })
        expect({ code, stdout }).toEqual({ code: 0, stdout: './data/users.db: sound\n' })
        expect([MANY_USERS, MANY_USERS + 1]).toContain(emailsIn(place.path).length)
        expect((await run({ cwd, args: ['restore', prepared.file] })).code).toBe(0)
        expect(emailsIn(place.path)).toHaveLength(MANY_USERS + 1)
        expect(filesOf(place.path).filter(name => name.includes('.partial'))).toEqual([])
      }
    },
    LONG_MS,
  )
})

const reason = whyNoFailingDisk()
if (reason !== undefined)
  console.log(`the disks of test/cli/database/restore.test.ts are skipped: ${reason}`)

describe.skipIf(reason !== undefined)('restore on a disk', () => {
  test.each([{ passes: 0 }, { passes: 2 }, { passes: 100 }, { passes: 700 }, { passes: 550 }])(
    'that is full after $passes writes fails, and the database is unchanged',
    async ({ passes }) => {
      const place = placeWithBackup({ old: 3000, users: 3000 })
      const before = emailsIn(place.path)
      const disk = createFailingDisk(join(place.cwd, 'data'))
      disk.fail({ writes: 'ENOSPC', passes })
      const { code, stderr } = await run({
        cwd: place.cwd,
        args: ['restore', 'copy.db'],
        env: disk.env,
      })
      expect([code, stderr.trimEnd().split('\n').length]).toEqual([1, 1])
      expect(stderr).toMatch(/its disk is full/)
      expect(disk.failedCalls()).toBeGreaterThan(0)
      const { stdout } = await run({ cwd: place.cwd, args: ['check'] })
      expect(stdout).toBe('./data/users.db: sound\n')
      expect(emailsIn(place.path)).toEqual(before)
      // If even the earlier writes cannot be undone at once, the copy stays until they are.
      for (const kept of keptIn(place)) expect(emailsIn(kept)).toEqual(before)
      expect(filesOf(place.path)).toHaveLength(1 + keptIn(place).length)
    },
  )
})

test.skipIf(!canRunAsNobody)('restore without write permission fails with one line', async () => {
  const place = placeWithBackup()
  const { uid = 0, gid = 0 } = owner
  for (const path of [place.cwd, place.file, place.path]) chownSync(path, uid, gid)
  chmodSync(join(place.cwd, 'data'), 0o555)
  const { code, stderr } = await run({ cwd: place.cwd, args: ['restore', 'copy.db'], ...owner })
  expect(code).toBe(1)
  expect(stderr).toMatch(/it cannot be written: give the user of this process.*\n$/)
  expect(emailsIn(place.path)).toHaveLength(OLD_USERS)
})
