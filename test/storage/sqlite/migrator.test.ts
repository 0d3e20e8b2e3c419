import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { appliedMigrations, migrate } from '../../../src/storage/sqlite/migrator.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { describeMigrator } from '../../contracts/migrator-contract.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

describeMigrator('SQLite', async () => {
  const database = new Database(join(temporaryFolder(), 'test.db'), { timeout: 0 })
  onTestFinished(() => void database.close())
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
