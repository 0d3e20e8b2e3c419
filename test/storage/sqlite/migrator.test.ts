import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { appliedMigrations, migrate } from '../../../src/storage/sqlite/migrator.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import {
  CATS,
  DOGS,
  describeMigrator,
  migrationsIn,
  migrationsOf,
} from '../../contracts/migrator-contract.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

describeMigrator('SQLite', async () => {
  const database = openDatabase()
  const select = (text: string) => database.prepare(text)
  return {
    migrate: async (migrations, now) => migrate(database, migrations, now),
    sql: async text =>
      text.startsWith('SELECT') ? select(text).all() : database.exec(text).inTransaction,
    history: async () => appliedMigrations(database),
    tables: async () =>
      select(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`).pluck().all(),
  }
})

test('migrate locks others out until it has applied what is missing', () => {
  const database = openDatabase()
  const other = openDatabase(database.name)
  database.pragma('journal_mode = WAL')
  migrate(database, migrationsOf(CATS), Date.now)
  const migrations = migrationsOf(CATS, `SELECT meet(); ${DOGS}`)
  const refusals: unknown[] = []
  other.function('meet', () => null)
  database.function('meet', () => {
    try {
      migrate(other, migrations, Date.now)
    } catch (error) {
      refusals.push(error)
    }
    return null
  })
  migrate(database, migrations, Date.now)
  expect(refusals).toEqual([expect.objectContaining({ code: 'SQLITE_BUSY' })])
  migrate(other, migrations, Date.now)
  expect(appliedMigrations(other)).toMatchObject([{ version: 1 }, { version: 2 }])
})

test.each([
  [['0002_cats.sql', 'README.md'], '0002_cats.sql'],
  [['0001_cats.sql', '0001_dogs.sql'], '0001_dogs.sql'],
])('readMigrations rejects %j and names %s', (files, wrong) => {
  const read = () => migrationsIn(files.map(file => [file, CATS]))
  expect(read).toThrow(`found ${wrong} instead of migration`)
})

function openDatabase(path = join(temporaryFolder(), 'test.db')): Database {
  const database = new Database(path, { timeout: 0 })
  onTestFinished(() => void database.close())
  return database
}
