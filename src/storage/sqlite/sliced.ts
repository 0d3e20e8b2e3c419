/** Work in slices of about a millisecond: it pauses at each `yield`. */
export type Sliced<T> = Generator<undefined, T>

/** Does slices of work until a time of `performance.now`. Returns the result, or undefined if more follow. */
export function workUntil<T>(work: Sliced<T>, time: number): T | undefined {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    if (performance.now() > time) return undefined
  }
}

/** The result of the first of `all` that ends. They take turns. Throws for none. */
export function* race<T>(all: readonly Sliced<T>[]): Sliced<T> {
  while (all.length > 0) {
    for (const each of all) {
      const step = each.next()
      if (step.done) return step.value
      yield
    }
  }
  throw new Error('there is no way to the result')
}
