import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { MigrationMismatch, readMigrations } from '../../../src/storage/migrations.ts'
import { appliedMigrations, migrate } from '../../../src/storage/sqlite/migrator.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const NOW = Date.UTC(2026, 0, 31, 12)

const CREATE_CATS = 'CREATE TABLE cats (name TEXT);'
const CREATE_DOGS = 'CREATE TABLE dogs (name TEXT); CREATE INDEX dogs_name ON dogs (name);'

describe('migrate', () => {
  test('applies all migrations to a new database and stores when', () => {
    const database = openDatabase()
    migrate(database, twoMigrations(), () => NOW)
    expect(tablesOf(database)).toEqual(['cats', 'dogs', 'schema_migrations'])
    const applied_at = '2026-01-31T12:00:00.000Z'
    expect(appliedMigrations(database)).toEqual([
      { version: 1, name: '0001_cats', hash: sha256(CREATE_CATS), applied_at },
      { version: 2, name: '0002_dogs', hash: sha256(CREATE_DOGS), applied_at },
    ])
  })

  test('run twice changes nothing', () => {
    const database = openDatabase()
    migrate(database, twoMigrations(), () => NOW)
    const before = database.serialize()
    migrate(database, twoMigrations(), () => NOW + 1)
    expect(database.serialize().equals(before)).toBe(true)
  })

  test('applies only what is missing', () => {
    const database = openDatabase()
    migrate(database, migrationFiles({ '0001_cats.sql': CREATE_CATS }), () => NOW)
    migrate(database, twoMigrations(), () => NOW + 1000)
    expect(appliedMigrations(database)).toMatchObject([
      { version: 1, applied_at: '2026-01-31T12:00:00.000Z' },
      { version: 2, applied_at: '2026-01-31T12:00:01.000Z' },
    ])
  })

  test('undoes a failing migration, and keeps those before it', () => {
    const database = openDatabase()
    const broken = `${CREATE_DOGS} INSERT INTO cats VALUES ('Tom'); INSERT INTO birds VALUES (1);`
    const migrations = migrationFiles({ '0001_cats.sql': CREATE_CATS, '0002_dogs.sql': broken })
    expect(() => migrate(database, migrations, () => NOW)).toThrow('no such table: birds')
    expect(database.inTransaction).toBe(false)
    expect(tablesOf(database)).toEqual(['cats', 'schema_migrations'])
    expect(database.prepare('SELECT * FROM cats').all()).toEqual([])
    expect(appliedMigrations(database)).toMatchObject([{ version: 1 }])
  })

  test('continues from there once the failing migration is fixed', () => {
    const database = openDatabase()
    const broken = migrationFiles({ '0001_cats.sql': CREATE_CATS, '0002_dogs.sql': 'oops' })
    expect(() => migrate(database, broken, () => NOW)).toThrow('oops')
    migrate(database, twoMigrations(), () => NOW)
    expect(tablesOf(database)).toEqual(['cats', 'dogs', 'schema_migrations'])
  })

  test('leaves nothing if the first migration fails', () => {
    const database = openDatabase()
    const broken = migrationFiles({ '0001_cats.sql': `${CREATE_CATS} oops` })
    expect(() => migrate(database, broken, () => NOW)).toThrow('oops')
    expect(tablesOf(database)).toEqual([])
    expect(appliedMigrations(database)).toBeUndefined()
  })

  test('locks out others from reading the history until it has applied what is missing', () => {
    const database = openDatabase()
    const other = new Database(database.name, { timeout: 0 })
    onTestFinished(() => {
      other.close()
    })
    database.pragma('journal_mode = WAL')
    migrate(database, migrationFiles({ '0001_cats.sql': CREATE_CATS }), () => NOW)
    const migrations = migrationFiles({
      '0001_cats.sql': CREATE_CATS,
      '0002_dogs.sql': `SELECT meet(); ${CREATE_DOGS}`,
    })
    const refusals: unknown[] = []
    other.function('meet', () => null)
    database.function('meet', () => {
      try {
        migrate(other, migrations, () => NOW)
      } catch (error) {
        refusals.push(error)
      }
      return null
    })
    migrate(database, migrations, () => NOW)
    expect(refusals).toEqual([expect.objectContaining({ code: 'SQLITE_BUSY' })])
    migrate(other, migrations, () => NOW)
    expect(appliedMigrations(other)).toMatchObject([{ version: 1 }, { version: 2 }])
  })

  test.each([
    {
      history: 'a migration that this release lacks',
      change: `INSERT INTO schema_migrations VALUES (3, '0003_birds', 'x', 'y')`,
      refusal: 'its schema version 3 is from a newer release: this release knows only 2',
    },
    {
      history: 'another hash of a migration',
      change: `UPDATE schema_migrations SET hash = 'x' WHERE version = 1`,
      refusal: 'its migration 0001_cats differs from the one in this release',
    },
    {
      history: 'a gap',
      change: 'DELETE FROM schema_migrations WHERE version = 1',
      refusal: 'its migration 0002_dogs differs from the one in this release',
    },
  ])('rejects a history with $history and changes nothing', ({ change, refusal }) => {
    const database = openDatabase()
    migrate(database, twoMigrations(), () => NOW)
    database.exec(change)
    const before = database.serialize()
    const attempt = () => migrate(database, twoMigrations(), () => NOW)
    expect(attempt).toThrow(MigrationMismatch)
    expect(attempt).toThrow(refusal)
    expect(database.inTransaction).toBe(false)
    expect(database.serialize().equals(before)).toBe(true)
  })

  test('rejects an applied migration that was edited, even by a comment, and applies none after it', () => {
    const database = openDatabase()
    migrate(database, migrationFiles({ '0001_cats.sql': CREATE_CATS }), () => NOW)
    const edited = migrationFiles({
      '0001_cats.sql': `${CREATE_CATS} -- pets`,
      '0002_dogs.sql': CREATE_DOGS,
    })
    expect(() => migrate(database, edited, () => NOW)).toThrow(
      'its migration 0001_cats differs from the one in this release',
    )
    expect(tablesOf(database)).toEqual(['cats', 'schema_migrations'])
  })
})

function twoMigrations() {
  return migrationFiles({ '0001_cats.sql': CREATE_CATS, '0002_dogs.sql': CREATE_DOGS })
}

/** Calls `readMigrations` on a folder with these files. */
function migrationFiles(contents: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(temporaryFolder(), 'migrations-'))
  for (const [file, sql] of Object.entries(contents)) writeFileSync(join(folder, file), sql)
  return readMigrations(pathToFileURL(`${folder}/`))
}

function openDatabase(): Database {
  const database = new Database(join(temporaryFolder(), 'test.db'))
  onTestFinished(() => {
    database.close()
  })
  return database
}

function tablesOf(database: Database): unknown[] {
  return database
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
    .pluck()
    .all()
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
