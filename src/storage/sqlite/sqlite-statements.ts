import { runAtOnce } from '../programs.ts'
import type { OpenStorageOptions, SharedStatements } from '../storage.ts'
import type { ReadView } from './read-view.ts'
import type { Database, Statement } from './sqlite-driver.ts'
import { guardWork } from './sqlite-errors.ts'
import type { WriteQueue } from './write-queue.ts'

/** What the stores of one open database share. */
export interface SqliteParts extends Pick<OpenStorageOptions, 'now' | 'steadyNow' | 'uptimeNow'> {
  readonly database: Database
  readonly view: ReadView
  readonly writes: WriteQueue
  readonly statements: SqliteSharedStatements
}

/** Lists of users have thousands of possible texts. Few are used. */
const MAX_PREPARED = 200

/** Returns a function that prepares each SQL once, and forgets all of them when there are too many. */
export function rememberStatements(database: Database) {
  const statements = new Map<string, Statement<unknown[]>>()
  return (sql: string): Statement<unknown[]> => {
    let statement = statements.get(sql)
    if (statement === undefined) {
      if (statements.size >= MAX_PREPARED) statements.clear()
      statement = database.prepare<unknown[]>(sql)
      statements.set(sql, statement)
    }
    return statement
  }
}

/** The values of `$1`, `$2`, …, which SQLite takes for names. */
export function numbered(values: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(values.map((value, index) => [index + 1, value]))
}

/** Returns what runs statements at once, each of which it prepares once. */
export function createStatementRunner(database: Database) {
  const prepared = rememberStatements(database)

  return <R extends readonly unknown[]>(sql: string, values: readonly unknown[] = []): R[] => {
    const statement = prepared(sql)
    if (statement.reader) return statement.raw().all(numbered(values)) as unknown[] as R[]
    statement.run(numbered(values))
    return []
  }
}

/** Statements of a connection that nothing else uses meanwhile. */
export function createLoneStatements(
  database: Database,
): Pick<SharedStatements, 'read' | 'transaction'> {
  const run = createStatementRunner(database)
  return {
    read: async (sql, values) => run(sql, values),
    transaction: async program => database.transaction(() => runAtOnce(program(), run)).immediate(),
  }
}

export type SqliteSharedStatements = SharedStatements & {
  /** Runs a statement at once, within a write of the queue or a read of the view. */
  readonly run: ReturnType<typeof createStatementRunner>
}

export function createSqliteSharedStatements(
  database: Database,
  writes: WriteQueue,
): SqliteSharedStatements {
  const run = createStatementRunner(database)
  return {
    run,
    read: (sql, values) => guardWork(database, () => run(sql, values)),
    write: (sql, values) => writes.run(() => run(sql, values)),
    transaction: (program, options) => {
      const countWrites = () => options?.writes ?? 1
      return writes.run(() => runAtOnce(program(), run), { countWrites })
    },
  }
}
