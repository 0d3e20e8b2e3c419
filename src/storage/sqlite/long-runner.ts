import type { Database } from './sqlite-driver.ts'

export interface LongStatement {
  readonly sql: string
  readonly values: Readonly<Record<string, unknown>>
  /** When to end it, as a time of `steadyMs`. Only a call of the SQL function `is_in_time` ends a statement that runs. */
  readonly deadline: number
}

/** The rows of a statement. One that was ended has the code `LATE`. */
export type Answer =
  | { readonly rows: unknown[][] }
  | { readonly error: { readonly message: string; readonly code?: string | undefined } }

export interface Opening {
  readonly open: () => Database
  /** Whether what runs is to end. */
  readonly isEnded: () => boolean
}

/** Runs statements, one after the other. A thread gets the text of this function, so it uses nothing around it. */
export function createLongRunner({ open, isEnded }: Opening): (statement: LongStatement) => Answer {
  const nowMs = () => Number(process.hrtime.bigint()) / 1e6
  let database: Database | undefined
  let endsAt = 0

  function opened(): Database {
    const connection = open()
    connection.function('is_in_time', () => {
      if (nowMs() > endsAt || isEnded()) throw new Error('late')
      return 1
    })
    return connection
  }

  return ({ sql, values, deadline }) => {
    endsAt = deadline
    try {
      if (nowMs() > endsAt) throw new Error('late')
      database ??= opened()
      return { rows: database.prepare<unknown[], unknown[]>(sql).raw().all(values) }
    } catch (error) {
      const { message, code } = error as Error & { code?: string }
      return { error: { message, code: nowMs() > endsAt ? 'LATE' : code } }
    }
  }
}
