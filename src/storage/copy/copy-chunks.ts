import { setImmediate as nextTurn } from 'node:timers/promises'

export interface ChunkOptions {
  /** Rows of a chunk, except the last one. */
  readonly chunkRows: number
  /** Its reason is thrown between two chunks. */
  readonly signal: AbortSignal
}

/** All rows of a table. The last chunk may be empty. */
export async function* chunksOf<Row>(
  read: (after: Row | undefined, limit: number) => Promise<readonly Row[]>,
  { chunkRows, signal }: ChunkOptions,
): AsyncGenerator<readonly Row[]> {
  let last: Row | undefined
  do {
    // An engine in this process does not give way to signals by itself.
    await nextTurn()
    signal.throwIfAborted()
    const rows = await read(last, chunkRows)
    yield rows
    last = rows[chunkRows - 1]
  } while (last !== undefined)
}
