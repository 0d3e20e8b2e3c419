import type { SharedStatements } from '../shared-statements.ts'
import type { Database } from './sqlite-driver.ts'
import { guardWork } from './sqlite-errors.ts'
import { numbered, rememberStatements } from './sqlite-statements.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteTableOptions {
  readonly database: Database
  readonly writes: WriteQueue
}

/** A list of bans has a form for each number of clients, which are few. */
const MAX_STATEMENTS = 50

/** The statements of `SharedStatements` on SQLite. */
export interface SqliteSharedStatements extends SharedStatements {
  /** Runs a statement within a write of the queue. */
  run<R extends readonly unknown[]>(sql: string, values?: readonly unknown[]): R[]
}

export function createSqliteSharedStatements({
  database,
  writes,
}: SqliteTableOptions): SqliteSharedStatements {
  const prepared = rememberStatements(database, MAX_STATEMENTS)

  function run<R extends readonly unknown[]>(sql: string, values: readonly unknown[] = []): R[] {
    const statement = prepared(sql, () => sql)
    if (statement.reader) return statement.raw().all(numbered(values)) as unknown[] as R[]
    statement.run(numbered(values))
    return []
  }

  return {
    run,

    read: (sql, values) => guardWork(database, () => run(sql, values)),

    write: (sql, values) => writes.run(() => run(sql, values)),
  }
}
