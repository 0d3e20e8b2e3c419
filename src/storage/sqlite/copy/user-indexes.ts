import { migrate, migrationsOfRelease } from '../migrator.ts'
import { Database } from '../sqlite-driver.ts'

interface IndexRow {
  readonly name: string
  readonly sql: string
}

/** The indexes that statements create, without that of the primary key. */
const SELECT_INDEXES = `
  SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'users' AND sql IS NOT NULL`

/**
 * Drops the indexes of `users`. Users come in order of their ids, which is no order for the other indexes: filling them row
 * by row takes three times as long as creating them at the end.
 */
export function dropUserIndexes(database: Database): void {
  for (const { name } of indexesOf(database)) database.exec(`DROP INDEX ${name}`)
}

/** Creates the indexes of `users` that this release has. An unfinished copy of release 1.0.0 has none that could be asked. */
export function createUserIndexes(database: Database): void {
  const fresh = new Database(':memory:')
  try {
    migrate(fresh, migrationsOfRelease(), Date.now)
    for (const { sql } of indexesOf(fresh)) database.exec(sql)
  } finally {
    fresh.close()
  }
}

function indexesOf(database: Database): readonly IndexRow[] {
  return database.prepare<[], IndexRow>(SELECT_INDEXES).all()
}
