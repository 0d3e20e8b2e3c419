import type { Database, Statement } from 'better-sqlite3'

/** Prepares each form of SQL once, as long as they are not more than `most`. */
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
