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
import { overwritePages, PAGE_BYTES } from '../../support/damage.ts'
import { execute, modeOf } from '../../support/databases.ts'
import { fillWithUsers } from '../../support/fill-with-users.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const NOW = Date.UTC(2026, 0, 31, 12)

const MIGRATIONS_FOLDER = new URL('../../../migrations/sqlite/', import.meta.url)

const MIGRATION_NAMES = readdirSync(MIGRATIONS_FOLDER)
  .sort()
  .map(file => basename(file, '.sql'))

const newPath = () => join(temporaryFolder(), 'users.db')

describe('openSqlite', () => {
  test('opens a database in WAL mode, with synchronous FULL and without waiting for locks', async () => {
    const database = await open(newPath())
    const settingOf = (pragma: string) => database.pragma(pragma, { simple: true })
    expect(['journal_mode', 'synchronous', 'busy_timeout'].map(settingOf)).toEqual(['wal', 2, 0])
    expect(emailsOf(database)).toEqual([])
  })

  test('creates missing folders with mode 700 and files with mode 600', async () => {
    const root = temporaryFolder()
    const path = join(root, 'made', 'too', 'users.db')
    insertUser(await open(path), 'a@x.co')
    expect([join(root, 'made'), join(root, 'made', 'too')].map(modeOf)).toEqual([0o700, 0o700])
    expect([path, `${path}-wal`, `${path}-shm`].map(modeOf)).toEqual([0o600, 0o600, 0o600])
  })

  test('keeps the modes of existing files and folders', async () => {
    const path = newPath()
    const folder = join(path, '..')
    writeFileSync(path, '')
    chmodSync(folder, 0o751)
    chmodSync(path, 0o640)
    await open(path)
    expect([folder, path, `${path}-wal`].map(modeOf)).toEqual([0o751, 0o640, 0o640])
  })

  test('run twice changes nothing in the file', async () => {
    const path = newPath()
    await create(path)
    const before = readFileSync(path)
    ;(await openSqlite({ path, now: () => NOW + 1000 })).close()
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test('opens a new :memory: database each time, and creates no file', async () => {
    insertUser(await open(':memory:'), 'a@x.co')
    expect(emailsOf(await open(':memory:'))).toEqual([])
    expect(existsSync(':memory:')).toBe(false)
  })

  test('accepts a path with characters that have a meaning in URLs', async () => {
    const path = join(temporaryFolder(), 'a b?mode=memory#%41.db')
    insertUser(await open(path), 'a@x.co')
    expect([path, `${path}-wal`].filter(existsSync)).toHaveLength(2)
  })

  test.each([
    { what: 'a database with users', users: ['a@x.co'], isFirstPageThere: true },
    { what: 'a first start', users: [], isFirstPageThere: true },
    { what: 'a first start without its first page', users: [], isFirstPageThere: false },
  ])(
    'undoes the unfinished write of a killed process: $what',
    async ({ users, isFirstPageThere }) => {
      const path = newPath()
      await leaveHalfWritten(path, users)
      if (!isFirstPageThere) writeFileSync(path, readFileSync(path).fill(0, 0, 4096))
      const database = await open(path)
      expect(emailsOf(database)).toEqual(users)
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

type Prepare = (path: string) => unknown

const write =
  (content: string | Buffer): Prepare =>
  path =>
    writeFileSync(path, content)

const make =
  (change: Prepare): Prepare =>
  async path => {
    await create(path)
    await change(path)
  }

const fill =
  (change: Prepare): Prepare =>
  async path => {
    await fillWithUsers(path, 1000)
    await change(path)
  }

const NO_DATABASE = 'it is not a SQLite database'
const DAMAGED = 'it is damaged: restore it from a backup'
const OF_ANOTHER = 'it is the database of another program'
const NEWER = MIGRATION_NAMES.length + 1

test.each<[what: string, reason: string, prepare: Prepare]>([
  ['a text file', NO_DATABASE, write('to do: nothing\n'.repeat(1000))],
  ['a short text file', NO_DATABASE, write('hi\n')],
  // SQLite treats a file of one byte as an empty one.
  ['a text file of one byte', NO_DATABASE, write('\n')],
  ['a file of zeros', NO_DATABASE, write(Buffer.alloc(8192))],
  [
    'garbage after a SQLite header',
    NO_DATABASE,
    write(`SQLite format 3\0${'garbage '.repeat(1000)}`),
  ],
  ['a database cut short', DAMAGED, make(path => truncateSync(path, PAGE_BYTES))],
  [
    'garbage in its first table',
    DAMAGED,
    make(path => writeFileSync(path, readFileSync(path).fill('garbage ', PAGE_BYTES))),
  ],
  ['garbage in its middle', DAMAGED, fill(path => overwritePages(path, 'garbage ', { from: 40 }))],
  ['zeros in its middle', DAMAGED, fill(path => overwritePages(path, '\0', { from: 40 }))],
  [
    'a database without its last page',
    DAMAGED,
    fill(path => truncateSync(path, statSync(path).size - PAGE_BYTES)),
  ],
  [
    'a database cut short with writes in its WAL',
    DAMAGED,
    fill(async path => {
      insertUser(await open(path), 'last@x.co')
      truncateSync(path, 20 * PAGE_BYTES)
    }),
  ],
  ['another program', OF_ANOTHER, path => execute(path, 'CREATE TABLE notes (text)')],
  [
    'another program, in WAL',
    OF_ANOTHER,
    path => execute(path, 'PRAGMA journal_mode = WAL; CREATE TABLE notes (text)'),
  ],
  [
    'another program that numbers its schema too',
    'it ',
    path => execute(path, 'CREATE TABLE schema_migrations (version TEXT PRIMARY KEY)'),
  ],
  [
    'a newer schema',
    `its schema version ${NEWER}`,
    make(path =>
      execute(path, `INSERT INTO schema_migrations VALUES (${NEWER}, '9', 'hash', 'time')`),
    ),
  ],
  [
    'a migration that was edited since',
    'its migration 0001_create_users differs from the one in this release',
    make(path => execute(path, `UPDATE schema_migrations SET hash = 'x' WHERE version = 1`)),
  ],
])(
  'openSqlite and migrationStatus reject %s: %s, and leave the file as it was',
  async (_what, reason, prepare) => {
    const path = newPath()
    await prepare(path)
    const before = readFileSync(path)
    const modeBefore = modeOf(path)
    for (const attempt of [open, migrationStatus]) {
      const error = await attempt(path).then(
        () => undefined,
        (refusal: unknown) => refusal,
      )
      expect(error).toBeInstanceOf(UnusableDatabase)
      expect((error as UnusableDatabase).message).toContain(reason)
      expect(readFileSync(path).equals(before)).toBe(true)
      expect(modeOf(path)).toBe(modeBefore)
    }
  },
)

describe('migrationStatus', () => {
  test('returns all migrations as pending for a missing database, and does not create it', async () => {
    const folder = temporaryFolder()
    const status = await migrationStatus(join(folder, 'data', 'users.db'))
    expect(status).toEqual(MIGRATION_NAMES.map(name => ({ name, appliedAt: undefined })))
    expect(readdirSync(folder)).toEqual([])
  })

  test('returns all migrations as pending for an empty file and for :memory:', async () => {
    const path = newPath()
    writeFileSync(path, '')
    const pending = MIGRATION_NAMES.map(name => ({ name, appliedAt: undefined }))
    expect(await migrationStatus(path)).toEqual(pending)
    expect(await migrationStatus(':memory:')).toEqual(pending)
    expect(statSync(path).size).toBe(0)
  })

  test('returns when each migration was applied, also while the database is in use', async () => {
    const path = newPath()
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
  const path = newPath()
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
    const { prepared, met } = await openMeetingAnother(newPath(), place)
    if (met) meetings++
    if (prepared < place) break
  }
  expect(meetings).toBeGreaterThan(0)
})

async function open(path: string): Promise<Database> {
  const database = await openSqlite({ path, now: () => NOW })
  onTestFinished(() => {
    database.close()
  })
  return database
}

async function create(path: string): Promise<void> {
  const database = await openSqlite({ path, now: () => NOW })
  database.close()
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
    // Nothing of it has to outlive the machine.
    other.pragma('synchronous = OFF')
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

function emailsOf(database: Database): unknown[] {
  return database.prepare('SELECT email FROM users').pluck().all()
}
