import {
  chmodSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readMigrations } from '../../../src/storage/migrations.ts'
import { migrate } from '../../../src/storage/sqlite/migrator.ts'
import { migrationStatus, openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { isBusy } from '../../../src/storage/sqlite/sqlite-errors.ts'
import { UnusableDatabase } from '../../../src/storage/unusable-database.ts'
import { newUserBody } from '../../support/builders.ts'
import { overwritePages, PAGE_BYTES } from '../../support/damage.ts'
import { fillWithUsers } from '../../support/fill-with-users.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { spawnService } from '../../support/spawn-service.ts'

const NOW = Date.UTC(2026, 0, 31, 12)

const MIGRATIONS_FOLDER = new URL('../../../migrations/sqlite/', import.meta.url)

const MIGRATION_NAMES = readdirSync(MIGRATIONS_FOLDER)
  .sort()
  .map(file => basename(file, '.sql'))

describe('openSqlite', () => {
  test('opens a new database in WAL mode, with synchronous FULL and without waiting for locks', async () => {
    const database = await open(join(temporaryFolder(), 'users.db'))
    expect(database.pragma('journal_mode', { simple: true })).toBe('wal')
    expect(database.pragma('synchronous', { simple: true })).toBe(2)
    expect(database.pragma('busy_timeout', { simple: true })).toBe(0)
    expect(database.prepare('SELECT count(*) FROM users').pluck().get()).toBe(0)
  })

  test('creates missing folders with mode 700 and files with mode 600', async () => {
    const root = temporaryFolder()
    const path = join(root, 'made', 'too', 'users.db')
    const database = await open(path)
    insertUser(database, 'a@x.co')
    expect([join(root, 'made'), join(root, 'made', 'too')].map(modeOf)).toEqual(['700', '700'])
    expect([path, `${path}-wal`, `${path}-shm`].map(modeOf)).toEqual(['600', '600', '600'])
  })

  test('keeps the modes of existing files and folders', async () => {
    const folder = temporaryFolder()
    const path = join(folder, 'users.db')
    writeFileSync(path, '')
    chmodSync(folder, 0o751)
    chmodSync(path, 0o640)
    await open(path)
    expect([folder, path, `${path}-wal`].map(modeOf)).toEqual(['751', '640', '640'])
  })

  test('keeps what an earlier run stored', async () => {
    const path = join(temporaryFolder(), 'users.db')
    const first = await open(path)
    insertUser(first, 'a@x.co')
    first.close()
    const again = await open(path)
    expect(again.prepare('SELECT email FROM users').pluck().all()).toEqual(['a@x.co'])
  })

  test('run twice changes nothing in the file', async () => {
    const path = join(temporaryFolder(), 'users.db')
    ;(await open(path)).close()
    const before = readFileSync(path)
    ;(await openSqlite({ path, now: () => NOW + 1000 })).close()
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test('opens a new :memory: database each time, and creates no file', async () => {
    const database = await open(':memory:')
    insertUser(database, 'a@x.co')
    const other = await open(':memory:')
    expect(other.prepare('SELECT count(*) FROM users').pluck().get()).toBe(0)
    expect(existsSync(':memory:')).toBe(false)
  })

  test('accepts a path with characters that have a meaning in URLs', async () => {
    const path = join(temporaryFolder(), 'a b?mode=memory#%41.db')
    insertUser(await open(path), 'a@x.co')
    expect(readdirSync(join(path, '..'))).toContain('a b?mode=memory#%41.db')
    expect(existsSync(`${path}-wal`)).toBe(true)
  })

  test.each([
    { what: 'a database with users', users: ['a@x.co'], isFirstPageThere: true },
    { what: 'a first start', users: [], isFirstPageThere: true },
    { what: 'a first start without its first page', users: [], isFirstPageThere: false },
  ])(
    'undoes the unfinished write of a killed process: $what',
    async ({ users, isFirstPageThere }) => {
      const path = join(temporaryFolder(), 'users.db')
      await leaveHalfWritten(path, users)
      if (!isFirstPageThere) writeFileSync(path, readFileSync(path).fill(0, 0, 4096))
      const database = await open(path)
      expect(database.prepare('SELECT email FROM users').pluck().all()).toEqual(users)
      expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
      expect(existsSync(`${path}-journal`)).toBe(false)
    },
  )

  test('does not touch a file beside it that has the name of a journal but is none', async () => {
    const path = join(temporaryFolder(), 'notes')
    writeFileSync(path, 'to do: nothing')
    writeFileSync(`${path}-journal`, 'dear diary')
    await expect(open(path)).rejects.toThrow('it is not a SQLite database')
    expect(readFileSync(`${path}-journal`, 'utf8')).toBe('dear diary')
  })

  test('rejects a path below a file', async () => {
    const file = join(temporaryFolder(), 'file')
    writeFileSync(file, 'kept')
    await expect(open(join(file, 'users.db'))).rejects.toThrow(UnusableDatabase)
    expect(readFileSync(file, 'utf8')).toBe('kept')
  })

  test('rejects a folder', async () => {
    const folder = temporaryFolder()
    await expect(open(folder)).rejects.toThrow(UnusableDatabase)
    await expect(open(folder)).rejects.toThrow('it cannot be opened (EISDIR)')
    expect(readdirSync(folder)).toEqual([])
  })
})

describe.each<{ what: string; prepare: (path: string) => unknown; reason: string }>([
  {
    what: 'a text file',
    prepare: path => writeFileSync(path, 'to do: nothing\n'.repeat(1000)),
    reason: 'it is not a SQLite database',
  },
  {
    what: 'a short text file',
    prepare: path => writeFileSync(path, 'hi\n'),
    reason: 'it is not a SQLite database',
  },
  {
    // SQLite treats a file of one byte as an empty one.
    what: 'a text file of one byte',
    prepare: path => writeFileSync(path, '\n'),
    reason: 'it is not a SQLite database',
  },
  {
    what: 'a file of zeros',
    prepare: path => writeFileSync(path, Buffer.alloc(8192)),
    reason: 'it is not a SQLite database',
  },
  {
    what: 'a SQLite header with garbage after it',
    prepare: path => writeFileSync(path, `SQLite format 3\0${'garbage '.repeat(1000)}`),
    reason: 'it is not a SQLite database',
  },
  {
    what: 'a database cut short',
    prepare: async path => {
      ;(await openSqlite({ path, now: () => NOW })).close()
      truncateSync(path, 4096)
    },
    reason: 'it is damaged: restore it from a backup',
  },
  {
    what: 'a database with garbage in its first table',
    prepare: async path => {
      ;(await openSqlite({ path, now: () => NOW })).close()
      const bytes = readFileSync(path)
      writeFileSync(path, bytes.fill('garbage ', 4096))
    },
    reason: 'it is damaged: restore it from a backup',
  },
  {
    what: 'a database with garbage in its middle',
    prepare: async path => {
      await fillWithUsers(path, 1000)
      overwritePages(path, 'garbage ', { from: 40 })
    },
    reason: 'it is damaged: restore it from a backup',
  },
  {
    what: 'a database with zeros in its middle',
    prepare: async path => {
      await fillWithUsers(path, 1000)
      overwritePages(path, '\0', { from: 40 })
    },
    reason: 'it is damaged: restore it from a backup',
  },
  {
    what: 'a database that lacks its last page',
    prepare: async path => {
      await fillWithUsers(path, 1000)
      truncateSync(path, statSync(path).size - PAGE_BYTES)
    },
    reason: 'it is damaged: restore it from a backup',
  },
  {
    what: 'a database cut short with writes in its WAL',
    prepare: async path => {
      await fillWithUsers(path, 1000)
      const database = await open(path)
      insertUser(database, 'last@x.co')
      truncateSync(path, 20 * PAGE_BYTES)
    },
    reason: 'it is damaged: restore it from a backup',
  },
  {
    what: 'the database of another program',
    prepare: path => execute(path, `CREATE TABLE notes (text); INSERT INTO notes VALUES ('x')`),
    reason: 'it is the database of another program',
  },
  {
    what: 'the database of another program, in WAL',
    prepare: path => execute(path, 'PRAGMA journal_mode = WAL; CREATE TABLE notes (text)'),
    reason: 'it is the database of another program',
  },
  {
    what: 'the database of another program that numbers its schema too',
    prepare: path => execute(path, 'CREATE TABLE schema_migrations (version TEXT PRIMARY KEY)'),
    reason: 'it ',
  },
  {
    what: 'a newer schema',
    prepare: async path => {
      ;(await openSqlite({ path, now: () => NOW })).close()
      const version = MIGRATION_NAMES.length + 1
      execute(path, `INSERT INTO schema_migrations VALUES (${version}, '9_new', 'hash', 'time')`)
    },
    reason: `its schema version ${MIGRATION_NAMES.length + 1}`,
  },
  {
    what: 'a schema whose migration was edited since',
    prepare: async path => {
      ;(await openSqlite({ path, now: () => NOW })).close()
      execute(path, `UPDATE schema_migrations SET hash = 'other' WHERE version = 1`)
    },
    reason: 'its migration 0001_create_users differs from the one in this release',
  },
])('$what', ({ prepare, reason }) => {
  test.each([
    ['openSqlite', open],
    ['migrationStatus', migrationStatus],
  ])('is rejected by %s and stays unchanged', async (_name, attempt) => {
    const path = join(temporaryFolder(), 'users.db')
    await prepare(path)
    const before = readFileSync(path)
    const modeBefore = modeOf(path)
    const error = await attempt(path).then(
      () => undefined,
      (refusal: unknown) => refusal,
    )
    expect(error).toBeInstanceOf(UnusableDatabase)
    expect((error as UnusableDatabase).message).toContain(reason)
    expect(readFileSync(path).equals(before)).toBe(true)
    expect(modeOf(path)).toBe(modeBefore)
  })
})

describe('migrationStatus', () => {
  test('returns all migrations as pending for a missing database, and does not create it', async () => {
    const folder = temporaryFolder()
    const status = await migrationStatus(join(folder, 'data', 'users.db'))
    expect(status).toEqual(MIGRATION_NAMES.map(name => ({ name, appliedAt: undefined })))
    expect(readdirSync(folder)).toEqual([])
  })

  test('returns all migrations as pending for an empty file and for :memory:', async () => {
    const path = join(temporaryFolder(), 'users.db')
    writeFileSync(path, '')
    const pending = MIGRATION_NAMES.map(name => ({ name, appliedAt: undefined }))
    expect(await migrationStatus(path)).toEqual(pending)
    expect(await migrationStatus(':memory:')).toEqual(pending)
    expect(statSync(path).size).toBe(0)
  })

  test('returns when each migration was applied, also while the database is in use', async () => {
    const path = join(temporaryFolder(), 'users.db')
    const database = await open(path)
    const appliedAt = '2026-01-31T12:00:00.000Z'
    const applied = MIGRATION_NAMES.map(name => ({ name, appliedAt }))
    expect(await migrationStatus(path)).toEqual(applied)
    database.exec('BEGIN IMMEDIATE')
    expect(await migrationStatus(path)).toEqual(applied)
    database.close()
    expect(await migrationStatus(path)).toEqual(applied)
  })
})

test('openSqlite waits for a process that writes while the database is not yet in WAL mode', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const other = new Database(path)
  onTestFinished(() => {
    other.close()
  })
  other.exec('BEGIN IMMEDIATE')
  let settled = false
  const opening = open(path).finally(() => {
    settled = true
  })
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  expect(settled).toBe(false)
  other.exec('COMMIT')
  expect((await opening).pragma('journal_mode', { simple: true })).toBe('wal')
})

test('openSqlite succeeds, wherever another process migrates between two of its statements', async () => {
  let meetings = 0
  for (let place = 1; ; place++) {
    const path = join(temporaryFolder(), 'users.db')
    const { prepared, met } = await openMeetingAnother(path, place)
    if (met) meetings++
    if (prepared < place) break
  }
  expect(meetings).toBeGreaterThan(0)
})

test.each([2, 2, 2, 4, 4])(
  '%i services that start at once on a new database all succeed',
  async count => {
    const cwd = temporaryFolder()
    const env = { DATABASE_URL: 'file:data/users.db' }
    const services = await Promise.all(
      Array.from({ length: count }, () => spawnService({ cwd, env })),
    )
    const created = await Promise.all(
      services.map(({ url }) =>
        fetch(`${url}/users`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify(newUserBody()),
        }),
      ),
    )
    expect(created.map(({ status }) => status)).toEqual(services.map(() => 201))
    const lists = await Promise.all(
      services.map(async ({ url }) => (await fetch(`${url}/users`)).text()),
    )
    expect(new Set(lists).size).toBe(1)
    expect(JSON.parse(lists[0] ?? '')).toHaveLength(count)
    const status = await migrationStatus(join(cwd, 'data', 'users.db'))
    expect(status.every(({ appliedAt }) => appliedAt !== undefined)).toBe(true)
  },
)

async function open(path: string): Promise<Database> {
  const database = await openSqlite({ path, now: () => NOW })
  onTestFinished(() => {
    database.close()
  })
  return database
}

/**
 * Opens a new database that another connection migrates just before the statement at `place` is prepared. `met` says
 * whether it could, which a lock can prevent.
 */
async function openMeetingAnother(
  path: string,
  place: number,
): Promise<{ prepared: number; met: boolean }> {
  const { prepare } = Database.prototype
  let prepared = 0
  let met = false
  Database.prototype.prepare = function (this: Database, sql: string) {
    prepared++
    if (prepared === place) {
      Database.prototype.prepare = prepare
      met = migrateAsAnother(path)
    }
    return prepare.call(this, sql)
  } as typeof prepare
  try {
    await open(path)
    return { prepared, met }
  } finally {
    Database.prototype.prepare = prepare
  }
}

/** Whether no lock of another connection prevented it. */
function migrateAsAnother(path: string): boolean {
  const other = new Database(path, { timeout: 0 })
  try {
    other.pragma('journal_mode = WAL')
    migrate(other, readMigrations(MIGRATIONS_FOLDER), () => NOW)
    return true
  } catch (error) {
    if (isBusy(error)) return false
    throw error
  } finally {
    other.close()
  }
}

/** A database in the middle of a write that does not fit into the cache, and the journal that undoes it. */
async function leaveHalfWritten(path: string, emails: readonly string[]): Promise<void> {
  const whole = `${path}.whole`
  if (emails.length > 0) {
    const database = await openSqlite({ path: whole, now: () => NOW })
    for (const email of emails) insertUser(database, email)
    database.close()
  }
  const database = new Database(whole)
  database.pragma('journal_mode = DELETE')
  database.pragma('cache_size = 1')
  database.exec('BEGIN; CREATE TABLE half (text)')
  const insert = database.prepare('INSERT INTO half VALUES (?)')
  for (let row = 0; row < 100; row++) insert.run('half '.repeat(500))
  copyFileSync(whole, path)
  copyFileSync(`${whole}-journal`, `${path}-journal`)
  database.exec('ROLLBACK')
  database.close()
}

function insertUser(database: Database, email: string): void {
  database
    .prepare(
      `INSERT INTO users (name, name_lower, email, created_at, updated_at)
      VALUES ('Ann', 'ann', @email, @time, @time)`,
    )
    .run({ email, time: new Date(NOW).toISOString() })
}

function execute(path: string, sql: string): void {
  const database = new Database(path)
  database.exec(sql)
  database.close()
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8)
}
