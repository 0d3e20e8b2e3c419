/**
 * Reads a stream until its start is enough, it ends or it fails, and yields what `choose` then makes of all of it. A
 * failure is thrown after the chunks before it.
 */
export async function* afterStart<T>(
  chunks: AsyncIterable<Buffer>,
  isEnough: (start: Buffer) => boolean,
  choose: (start: Buffer, all: AsyncGenerator<Buffer>) => AsyncIterable<T>,
): AsyncGenerator<T> {
  const rest = chunks[Symbol.asyncIterator]()
  let start: Buffer = Buffer.alloc(0)
  let failure: { readonly error: unknown } | undefined
  let isEnd = false
  async function* all(): AsyncGenerator<Buffer> {
    yield start
    if (failure !== undefined) throw failure.error
    if (!isEnd) yield* { [Symbol.asyncIterator]: () => rest }
  }
  try {
    while (!isEnd && !isEnough(start)) {
      const { value, done = false } = await rest.next()
      isEnd = done
      if (!done) start = start.length === 0 ? value : Buffer.concat([start, value])
    }
  } catch (error) {
    failure = { error }
  }
  try {
    yield* choose(start, all())
  } finally {
    await rest.return?.()
  }
}

/** Reads a stream `ahead`, and then `again` from its start. Calls `onLimit` once it has kept more than `limit` bytes. */
export function readAhead(chunks: AsyncIterable<Buffer>, limit: number, onLimit: () => never) {
  const rest = chunks[Symbol.asyncIterator]()
  const kept: Buffer[] = []
  let bytes = 0

  async function* ahead(): AsyncGenerator<Buffer> {
    for (let next = await rest.next(); !next.done; next = await rest.next()) {
      kept.push(next.value)
      bytes += next.value.length
      if (bytes > limit) onLimit()
      yield next.value
    }
  }

  async function* again(): AsyncGenerator<Buffer> {
    yield* kept
    yield* { [Symbol.asyncIterator]: () => rest }
  }

  return { ahead, again }
}
