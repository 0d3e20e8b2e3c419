import { createHash, type Hash } from 'node:crypto'
import type { ImportCheckpoint } from './user-import-store.ts'

/** One piece of what is imported, as it was read. */
export interface ImportRecord {
  /** Where it begins, from 1. */
  readonly line: number
  /** Its text. */
  readonly raw: string
  /** What it says of a user, or why that cannot be read. */
  readonly content: { readonly row: unknown } | { readonly problem: string }
}

/** What is to be resumed is not what was begun. */
export class ImportMismatch extends Error {
  override readonly name = 'ImportMismatch'
}

/**
 * A transaction of as many takes some 80 ms, for which the writes of a running service wait. Addresses come in no order, so
 * that each page of their index is written once for a transaction, however many of its rows it takes: 500 rows took twice
 * as long each.
 */
const MAX_BATCH_RECORDS = 2000

/** They take longer than all else, so that progress shows and little is lost when the process ends. */
const MAX_BATCH_PASSWORDS = 32

/** By which records are known again. */
export interface RecordHash {
  add(records: readonly ImportRecord[]): void
  /** Of all that were added, and these. */
  digestWith(records: readonly ImportRecord[]): Buffer
}

export function createRecordHash(): RecordHash {
  const hash = createHash('sha256')
  const addTo = (target: Hash, records: readonly ImportRecord[]) => {
    return target.update(records.map(({ raw }) => `${raw}\n`).join(''))
  }
  return {
    add: records => {
      addTo(hash, records)
    },
    digestWith: records => addTo(hash.copy(), records).digest(),
  }
}

/** What is left to be done, some at a time, after those records that were done with before. */
export async function* remainingBatches(from: {
  readonly records: AsyncIterable<readonly ImportRecord[]>
  readonly checkpoint: ImportCheckpoint
  readonly hash: RecordHash
}): AsyncGenerator<readonly ImportRecord[]> {
  const { records, checkpoint, hash } = from
  const { records: resumed, recordsHash, source } = checkpoint
  let passed = 0
  for await (const some of records) {
    const old = some.slice(0, resumed - passed)
    hash.add(old)
    passed += old.length
    if (old.length > 0 && passed === resumed && !hash.digestWith([]).equals(recordsHash)) {
      throw new ImportMismatch(`the first ${resumed} rows of ${source} are others than before`)
    }
    yield* batchesOf(some.slice(old.length))
  }
  if (passed < resumed) {
    throw new ImportMismatch(`${source} has ${passed} rows, and ${resumed} were done before`)
  }
}

function* batchesOf(records: readonly ImportRecord[]): Generator<readonly ImportRecord[]> {
  let batch: ImportRecord[] = []
  let passwords = 0
  for (const record of records) {
    batch.push(record)
    if (hasPassword(record)) passwords++
    if (batch.length < MAX_BATCH_RECORDS && passwords < MAX_BATCH_PASSWORDS) continue
    yield batch
    batch = []
    passwords = 0
  }
  if (batch.length > 0) yield batch
}

function hasPassword({ content }: ImportRecord): boolean {
  return 'row' in content && (content.row as { password?: unknown } | null)?.password != null
}
