import type { Database } from './sqlite-driver.ts'

export interface LongStatement {
  readonly sql: string
  readonly values: Readonly<Record<string, unknown>>
  /** When to end it, as a time of `steadyMs`. Only a call of the SQL function `is_in_time` ends a statement that runs. */
  readonly deadline: number
}

export interface WalkStatement extends LongStatement {
  /** SQL whose value is 1 if it holds. */
  readonly condition: string
}

/** What is asked for: the rows of a statement, or the first lines of a walk, the next ones of the same walk, or its end. */
export type Task =
  | (LongStatement & { readonly kind: 'rows' })
  | (WalkStatement & { readonly kind: 'begin' })
  | { readonly kind: 'next' | 'end' }

/** Of a walk. */
export interface Lines {
  readonly text: string
  readonly isLast: boolean
}

/** What came of a task. A statement that was ended has the code `LATE`. */
export type Answer =
  | { readonly value: unknown }
  | { readonly error: { readonly message: string; readonly code?: string | undefined } }

export interface Opening {
  /** The connection of all statements but walks. */
  readonly open: () => Database
  /** A connection of one walk, which keeps the state of the database. */
  readonly openForWalk: () => Database
  /** Whether what runs is to end. */
  readonly isEnded: () => boolean
}

/** Runs tasks, one after the other, and one walk at a time. A thread gets the text of this function, so it uses nothing around it. */
export function createLongRunner({ open, openForWalk, isEnded }: Opening): (task: Task) => Answer {
  const maxChars = 65_536
  const maxMs = 5
  const nowMs = () => Number(process.hrtime.bigint()) / 1e6
  let walk: Generator<Lines, undefined> | undefined
  let database: Database | undefined
  let endsAt = 0

  function timed(connection: Database): Database {
    connection.function('is_in_time', () => {
      if (nowMs() > endsAt || isEnded()) throw new Error('late')
      return 1
    })
    return connection
  }

  /** Closes its connection however it ends. Yields nothing if the condition does not hold. */
  function* linesOf({ sql, values, condition }: WalkStatement): Generator<Lines, undefined> {
    const connection = timed(openForWalk())
    try {
      connection.exec('BEGIN')
      if (connection.prepare(condition).pluck().get() !== 1) return
      let text = ''
      let stopAt = nowMs() + maxMs
      const rows = connection.prepare<unknown[], string | null>(sql).pluck().iterate(values)
      for (const row of rows) {
        if (row !== null) text += `${row}\n`
        if (text.length <= maxChars && nowMs() <= stopAt) continue
        yield { text, isLast: false }
        text = ''
        stopAt = nowMs() + maxMs
      }
      yield { text, isLast: true }
    } finally {
      connection.close()
    }
  }

  /** The rows, the next lines of a walk, or `undefined` if its condition does not hold. */
  function run(task: Task): unknown[] | Lines | undefined {
    if (task.kind === 'rows') {
      database ??= timed(open())
      return database.prepare(task.sql).raw().all(task.values)
    }
    if (task.kind === 'begin') walk = linesOf(task)
    const lines = task.kind === 'end' ? undefined : walk?.next().value
    if (lines === undefined || lines.isLast) walk?.return(undefined)
    return lines
  }

  return task => {
    endsAt = 'deadline' in task ? task.deadline : Number.POSITIVE_INFINITY
    try {
      if (nowMs() > endsAt) throw new Error('late')
      return { value: run(task) }
    } catch (error) {
      const { message, code } = error as Error & { code?: string }
      return { error: { message, code: nowMs() > endsAt ? 'LATE' : code } }
    }
  }
}
