/**
 * Reads chunks until they are enough. `all` gives these, or others in their place, and those after them, up to the error that
 * ended the reading. An error before the first chunk is thrown at once. `isEnd` tells that nothing follows.
 */
export async function readFirst<C>(
  source: AsyncIterable<C>,
  isEnough: (first: readonly C[]) => boolean,
) {
  const chunks = source[Symbol.asyncIterator]()
  const first: C[] = []
  let isEnd = false
  let failure: { readonly error: unknown } | undefined
  while (!isEnd && failure === undefined && !isEnough(first)) {
    try {
      const result = await chunks.next()
      if (result.done) isEnd = true
      else first.push(result.value)
    } catch (error) {
      if (first.length === 0) throw error
      failure = { error }
    }
  }
  async function* all(start: readonly C[] = first): AsyncGenerator<C> {
    yield* start
    if (failure !== undefined) throw failure.error
    yield* { [Symbol.asyncIterator]: () => chunks }
  }
  return { first, all, isEnd }
}

/** The length of all chunks together. */
export function lengthOf(chunks: readonly { readonly length: number }[]): number {
  return chunks.reduce((count, { length }) => count + length, 0)
}
