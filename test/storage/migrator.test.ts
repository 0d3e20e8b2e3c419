import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  appliedMigrations,
  MigrationMismatch,
  migrate,
  readMigrations,
} from '../../src/storage/migrator.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

const NOW = Date.UTC(2026, 0, 31, 12)

const CREATE_CATS = 'CREATE TABLE cats (name TEXT);'
const CREATE_DOGS = 'CREATE TABLE dogs (name TEXT); CREATE INDEX dogs_name ON dogs (name);'

describe('readMigrations', () => {
  test('gives the files in the order of their numbers, each with its hash', () => {
    const migrations = migrationFiles({
      '0002_dogs.sql': CREATE_DOGS,
      '0001_cats.sql': CREATE_CATS,
    })
    expect(migrations).toEqual([
      { version: 1, name: '0001_cats', sql: CREATE_CATS, hash: sha256(CREATE_CATS) },
      { version: 2, name: '0002_dogs', sql: CREATE_DOGS, hash: sha256(CREATE_DOGS) },
    ])
  })

  test('leaves out files that are no SQL', () => {
    const migrations = migrationFiles({ 'README.md': '#', '0001_cats.sql': CREATE_CATS })
    expect(migrations.map(({ name }) => name)).toEqual(['0001_cats'])
  })

  test.each([
    { files: ['0002_cats.sql'], wrong: '0002_cats.sql' },
    { files: ['0000_cats.sql', '0001_dogs.sql'], wrong: '0000_cats.sql' },
    { files: ['0001_cats.sql', '0003_dogs.sql'], wrong: '0003_dogs.sql' },
    { files: ['0001_cats.sql', '0001_dogs.sql'], wrong: '0001_dogs.sql' },
    { files: ['0001_cats.sql', '002_dogs.sql'], wrong: '002_dogs.sql' },
    { files: ['0001-cats.sql'], wrong: '0001-cats.sql' },
    { files: ['0001_Cats.sql'], wrong: '0001_Cats.sql' },
    { files: ['0001.sql'], wrong: '0001.sql' },
    { files: ['cats.sql'], wrong: 'cats.sql' },
  ])('refuses $files and names $wrong', ({ files, wrong }) => {
    const contents = Object.fromEntries(files.map(file => [file, CREATE_CATS]))
    expect(() => migrationFiles(contents)).toThrow(`${wrong} stands where migration`)
  })
})

describe('migrate', () => {
  test('applies all migrations to a fresh database and remembers when', () => {
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

  test('leaves what a failing migration did undone, and what came before it done', () => {
    const database = openDatabase()
    const broken = `${CREATE_DOGS} INSERT INTO cats VALUES ('Tom'); INSERT INTO birds VALUES (1);`
    const migrations = migrationFiles({ '0001_cats.sql': CREATE_CATS, '0002_dogs.sql': broken })
    expect(() => migrate(database, migrations, () => NOW)).toThrow('no such table: birds')
    expect(database.inTransaction).toBe(false)
    expect(tablesOf(database)).toEqual(['cats', 'schema_migrations'])
    expect(database.prepare('SELECT * FROM cats').all()).toEqual([])
    expect(appliedMigrations(database)).toMatchObject([{ version: 1 }])
  })

  test('goes on from there once the failing migration is mended', () => {
    const database = openDatabase()
    const broken = migrationFiles({ '0001_cats.sql': CREATE_CATS, '0002_dogs.sql': 'oops' })
    expect(() => migrate(database, broken, () => NOW)).toThrow('oops')
    migrate(database, twoMigrations(), () => NOW)
    expect(tablesOf(database)).toEqual(['cats', 'dogs', 'schema_migrations'])
  })

  test('of a first migration that fails leaves nothing at all', () => {
    const database = openDatabase()
    const broken = migrationFiles({ '0001_cats.sql': `${CREATE_CATS} oops` })
    expect(() => migrate(database, broken, () => NOW)).toThrow('oops')
    expect(tablesOf(database)).toEqual([])
    expect(appliedMigrations(database)).toBeUndefined()
  })

  test('keeps others out from its look at the history until it has applied what is missing', () => {
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
      refusal: 'its schema is of version 3 and this release knows 2',
    },
    {
      history: 'another hash of a migration',
      change: `UPDATE schema_migrations SET hash = 'x' WHERE version = 1`,
      refusal: 'its migration 0001_cats is not the one in this release',
    },
    {
      history: 'a gap',
      change: 'DELETE FROM schema_migrations WHERE version = 1',
      refusal: 'its migration 0002_dogs is not the one in this release',
    },
  ])('refuses a history with $history and changes nothing', ({ change, refusal }) => {
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

  test('refuses an applied migration that was edited, even by a comment, and applies none after it', () => {
    const database = openDatabase()
    migrate(database, migrationFiles({ '0001_cats.sql': CREATE_CATS }), () => NOW)
    const edited = migrationFiles({
      '0001_cats.sql': `${CREATE_CATS} -- pets`,
      '0002_dogs.sql': CREATE_DOGS,
    })
    expect(() => migrate(database, edited, () => NOW)).toThrow(
      'its migration 0001_cats is not the one in this release',
    )
    expect(tablesOf(database)).toEqual(['cats', 'schema_migrations'])
  })
})

function twoMigrations() {
  return migrationFiles({ '0001_cats.sql': CREATE_CATS, '0002_dogs.sql': CREATE_DOGS })
}

/** What `readMigrations` makes of a folder with these files. */
function migrationFiles(contents: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(temporaryFolder(), 'migrations-'))
  for (const [file, sql] of Object.entries(contents)) writeFileSync(join(folder, file), sql)
  return readMigrations(pathToFileURL(`${folder}/`))
}

function openDatabase(): Database.Database {
  const database = new Database(join(temporaryFolder(), 'test.db'))
  onTestFinished(() => {
    database.close()
  })
  return database
}

function tablesOf(database: Database.Database): unknown[] {
  return database
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
    .pluck()
    .all()
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
