import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { appliedMigrations, migrate } from '../../../src/storage/sqlite/migrator.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { CATS, describeMigrator, migrationsIn } from '../../contracts/migrator-contract.ts'
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
