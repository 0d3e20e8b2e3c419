/**
 * Reads chunks until they are enough. `all` gives these, or others in their place, those after them, and what ended the reading.
 * `isEnd` tells that nothing follows.
 */
export async function readFirst<C>(
  source: AsyncIterable<C>,
  isEnough: (first: readonly C[]) => boolean,
) {
  const chunks = source[Symbol.asyncIterator]()
  const first: C[] = []
  let isEnd = false
  let ending: Promise<never> | undefined
  while (!isEnd && !isEnough(first)) {
    const next = chunks.next()
    const result = await next.catch(() => undefined)
    if (result === undefined) ending = next as Promise<never>
    else if (!result.done) first.push(result.value)
    isEnd = result?.done !== false
  }
  async function* all(start: readonly C[] = first): AsyncGenerator<C> {
    yield* start
    await ending
    yield* { [Symbol.asyncIterator]: () => chunks }
  }
  return { first, all, isEnd: isEnd && ending === undefined }
}
