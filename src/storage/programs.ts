/** A statement with the parameters `$1`, `$2`, …, in SQL of the engine that runs it. */
export interface Asked {
  readonly sql: string
  readonly values: readonly unknown[]
}

/**
 * What one transaction does: yields statements, gets the rows of each, and returns a result. A generator, because SQLite runs
 * statements at once and PostgreSQL answers them later. It can be run again, so it changes nothing but the database.
 */
export type Program<T> = Generator<Asked, T, unknown[][]>

/** One step of a program. Returns the rows; throws the engine's error. */
export function* ask<R extends readonly unknown[]>(
  sql: string,
  values: readonly unknown[] = [],
): Program<R[]> {
  return (yield { sql, values }) as unknown[] as R[]
}

type Query<Answer> = (sql: string, values: readonly unknown[]) => Answer

/** Runs a program whose statements are answered at once. */
export function runAtOnce<T>(program: Program<T>, query: Query<unknown[][]>): T {
  let step = program.next()
  while (!step.done) {
    let rows: unknown[][]
    try {
      rows = query(step.value.sql, step.value.values)
    } catch (error) {
      step = program.throw(error)
      continue
    }
    step = program.next(rows)
  }
  return step.value
}

/** Runs a program whose statements are answered later. */
export async function runAwaited<T>(
  program: Program<T>,
  query: Query<Promise<unknown[][]>>,
): Promise<T> {
  let step = program.next()
  while (!step.done) {
    step = await query(step.value.sql, step.value.values).then(
      rows => program.next(rows),
      error => program.throw(error),
    )
  }
  return step.value
}
