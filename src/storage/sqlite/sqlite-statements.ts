import type { Database, Statement } from './sqlite-driver.ts'

/** Returns a function that prepares each form of SQL once, and forgets all of them when there are more than `most`. */
export function rememberStatements(database: Database, most: number) {
  const statements = new Map<string, Statement<unknown[]>>()
  return (form: string, sqlOf: () => string): Statement<unknown[]> => {
    let statement = statements.get(form)
    if (statement === undefined) {
      if (statements.size >= most) statements.clear()
      statement = database.prepare<unknown[]>(sqlOf())
      statements.set(form, statement)
    }
    return statement
  }
}

/** The values of `$1`, `$2`, …, which SQLite takes for names. */
export function numbered(values: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(values.map((value, index) => [index + 1, value]))
}

export function hasTable(database: Database, name: string): boolean {
  const sql = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`
  return database.prepare(sql).pluck().get(name) === 1
}
