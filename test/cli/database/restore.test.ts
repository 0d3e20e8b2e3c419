import {
  chmodSync,
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
import { describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { makeDatabase } from '../../faults/databases.ts'
import { newUserBody } from '../../support/builders.ts'
import { overwritePages } from '../../support/damage.ts'
import { emailsIn, execute, filesOf, modeOf } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

const OLD_USERS = 7

const NEW_USERS = 5

interface Place {
  readonly cwd: string
  readonly path: string
  readonly file: string
}

/** A database, and a backup of another one with this many users. */
function placeWithBackup({
  old = OLD_USERS,
  ...schema
}: {
  old?: number
  migrations?: number
} = {}): Place {
  const cwd = temporaryFolder()
  const place = { cwd, path: join(cwd, 'data', 'users.db'), file: join(cwd, 'copy.db') }
  mkdirSync(join(cwd, 'data'))
  if (old > 0) makeDatabase(place.path, { users: old })
  makeDatabase(place.file, { users: NEW_USERS, ...schema })
  return place
}

function restore({ cwd }: { cwd: string }, file = 'copy.db') {
  return runCommand({ cwd, args: ['restore', file] })
}

function serve({ path }: Place) {
  return openTestApp({ env: { DATABASE_URL: path } })
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
    expect((await restore(place)).code).toBe(0)
    expect(keptIn(place)).toHaveLength(2)
  })

  test('--json prints the same for programs', async () => {
    const place = placeWithBackup({ migrations: 3 })
    const printed = async () => {
      const args = ['restore', 'copy.db', '--json']
      const { code, stdout, stderr } = await runCommand({ cwd: place.cwd, args })
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      return JSON.parse(stdout)
    }
    const restored = { database: './data/users.db', backup: 'copy.db' }
    const pending = expect.arrayContaining(['0004_keep_bans'])
    expect(await printed()).toEqual({ ...restored, kept: keptIn(place)[0], pending })
    rmSync(place.path)
    expect(await printed()).toMatchObject({ ...restored, kept: null })
  })

  test('creates what is missing if there was no database', async () => {
    const place = placeWithBackup({ old: 0 })
    rmSync(join(place.cwd, 'data'), { recursive: true })
    expect(await restore(place)).toMatchObject({
      code: 0,
      stdout: './data/users.db: restored from copy.db\n',
    })
    expect(filesOf(place.path)).toEqual(['users.db'])
    expect(modeOf(place.path)).toBe(0o600)
    expect(modeOf(join(place.cwd, 'data'))).toBe(0o700)
  })

  test('of an older schema lists what is pending, which the next start applies', async () => {
    const place = placeWithBackup({ migrations: 1 })
    const { code, stdout } = await restore(place)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^pending, .*: 0002_list_users, 0003_\w+, 0004_\w+/m)
    expect((await ask(await serve(place), 'GET /users')).body).toHaveLength(NEW_USERS)
  })

  test('makes no list look like one that a client has cached', async () => {
    const place = placeWithBackup()
    const first = await serve(place)
    const { headers } = await ask(first, 'GET /users')
    await first.stop()
    expect((await restore(place)).code).toBe(0)
    const second = await serve(place)
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
    const { headers } = await ask(await serve(place), 'GET /users')
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

  test.each<
    [why: string, line: RegExp, prepare?: ((place: Place) => unknown) | undefined, file?: string]
  >([
    ['no file', /^".*copy\.db": there is no such file$/, ({ file }) => rmSync(file)],
    ['a folder', /^".*data": it is not a regular file$/, undefined, 'data'],
    [
      'the database itself',
      /^".*users\.db": it is the database itself$/,
      undefined,
      'data/users.db',
    ],
    [
      'a text',
      /^".*copy\.db": it is not a SQLite database$/,
      ({ file }) => writeFileSync(file, 'a text'),
    ],
    ['an empty file', /^".*copy\.db": it is empty$/, ({ file }) => writeFileSync(file, '')],
    [
      'damage',
      /^".*copy\.db": /,
      ({ file }) => overwritePages(file, 'garbage ', { from: 2, to: 5 }),
    ],
    ['an end that is missing', /^".*copy\.db": /, ({ file }) => truncateSync(file, 3 * 4096)],
    [
      'a newer schema',
      /copy\.db": its schema version 99 is from a newer release/,
      ({ file }) => execute(file, `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`),
    ],
    [
      'the database of another program',
      /copy\.db": it is the database of another program$/,
      ({ file }) => {
        rmSync(file)
        execute(file, 'CREATE TABLE songs (name)')
      },
    ],
    [
      'a part that is in a WAL',
      /copy\.db": a part of it is in .*copy\.db-wal: take a `backup` of it$/,
      ({ file }) => writeFileSync(`${file}-wal`, 'x'),
    ],
    [
      'a link to a database of which a part is in a WAL',
      /copy\.db": a part of it is in .*copy\.db\.target-wal: take a `backup` of it$/,
      ({ file }) => {
        renameSync(file, `${file}.target`)
        symlinkSync(`${file}.target`, file)
        writeFileSync(`${file}.target-wal`, 'x')
      },
    ],
    [
      'a database that cannot be read',
      /^DATABASE_URL .*: it cannot be read, .* move that file/,
      ({ path }) => overwritePages(path, 'garbage ', { from: 0 }),
    ],
    [
      'a WAL without its database',
      /^DATABASE_URL .*users\.db-wal exists without the database: move it away$/,
      ({ path }) => {
        rmSync(path)
        writeFileSync(`${path}-wal`, 'x')
      },
    ],
  ])('with %s fails with one line, and changes nothing', async (_why, line, prepare, file) => {
    const place = placeWithBackup()
    prepare?.(place)
    const content = () => existsSync(place.path) && readFileSync(place.path)
    const before = [content(), filesOf(place.path)]
    const { code, stdout, stderr } = await restore(place, file)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr.trimEnd()).toMatch(line)
    expect(stderr.trimEnd()).not.toContain('\n')
    expect([content(), filesOf(place.path)]).toEqual(before)
  })

  test('fails for a database in memory', async () => {
    const { cwd } = placeWithBackup()
    const env = { DATABASE_URL: ':memory:' }
    const { code, stderr } = await runCommand({ cwd, args: ['restore', 'copy.db'], env })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory .*\n$/)
  })

  test('fails while a service runs, also an idle one, and that continues', async () => {
    const place = placeWithBackup()
    const service = await serve(place)
    const { code, stderr } = await restore(place)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^DATABASE_URL .*: a process has it open: stop the service first\n$/)
    expect((await ask(service, 'GET /users')).body).toHaveLength(OLD_USERS)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  })

  test('fails while another program has the database open', async () => {
    const place = placeWithBackup()
    const other = new Database(place.path)
    onTestFinished(() => {
      other.close()
    })
    other.exec('BEGIN')
    other.prepare('SELECT * FROM users').all()
    expect((await restore(place)).stderr).toContain('a process has it open')
  })
})
