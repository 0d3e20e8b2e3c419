/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>

/**
 * Calls `use` with a value, synchronously unless it is a promise: an await costs each request a turn of the microtask queue.
 */
export function andThen<T, Result>(
  value: MaybePromise<T>,
  use: (value: T) => Result,
): Result | Promise<Awaited<Result>> {
  return value instanceof Promise ? (value.then(use) as Promise<Awaited<Result>>) : use(value)
}
