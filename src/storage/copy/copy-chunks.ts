import { setImmediate as nextTurn } from 'node:timers/promises'
import type {
  CopiedApiKey,
  CopiedBan,
  CopiedKey,
  CopiedUser,
  CopyReader,
  IdRange,
} from './database-copy.ts'

export interface ChunkOptions {
  /** Rows of a chunk, except the last one. */
  readonly chunkRows: number
  /** Its reason is thrown between two chunks. */
  readonly signal: AbortSignal
}

export interface UserChunk {
  readonly users: readonly CopiedUser[]
  /** Where these are all users. The ranges of all chunks follow each other without a gap. */
  readonly range: IdRange
}

/** Users in order of their ids. The last chunk may be empty. */
export async function* userChunks(
  reader: CopyReader,
  { after, through }: IdRange,
  options: ChunkOptions,
): AsyncGenerator<UserChunk> {
  let start = after
  for (;;) {
    await pause(options)
    const users = await reader.users({ after: start, through }, options.chunkRows)
    const [end] = users[options.chunkRows - 1] ?? [through]
    yield { users, range: { after: start, through: end } }
    if (users.length < options.chunkRows) return
    start = end
  }
}

export function keyChunks(
  reader: CopyReader,
  options: ChunkOptions,
): AsyncGenerator<readonly CopiedKey[]> {
  return chunks(after => reader.idempotencyKeys(after, options.chunkRows), options)
}

export function banChunks(
  reader: CopyReader,
  options: ChunkOptions,
): AsyncGenerator<readonly CopiedBan[]> {
  return chunks(after => reader.bans(after, options.chunkRows), options)
}

export function apiKeyChunks(
  reader: CopyReader,
  options: ChunkOptions,
): AsyncGenerator<readonly CopiedApiKey[]> {
  return chunks(after => reader.apiKeys(after, options.chunkRows), options)
}

async function* chunks<T>(
  read: (after: T | undefined) => Promise<readonly T[]>,
  options: ChunkOptions,
): AsyncGenerator<readonly T[]> {
  let last: T | undefined
  do {
    await pause(options)
    const rows = await read(last)
    yield rows
    last = rows[options.chunkRows - 1]
  } while (last !== undefined)
}

/** An engine in this process does not give way to signals by itself. */
async function pause({ signal }: ChunkOptions): Promise<void> {
  await nextTurn()
  signal.throwIfAborted()
}
