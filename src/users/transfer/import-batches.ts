import { createHash, type Hash } from 'node:crypto'
import type { ImportCheckpoint } from './user-import-store.ts'

/** One record of the source, as it was read. */
export interface ImportRecord {
  /** The line at which it begins, from 1. */
  readonly line: number
  /** Its text, by which a resumed import recognises it. */
  readonly raw: string
  /** The fields of a user, or why they cannot be read. */
  readonly content: { readonly row: unknown } | { readonly problem: string }
}

/** The source to resume is not the source of the earlier import. */
export class ImportMismatch extends Error {
  override readonly name = 'ImportMismatch'
}

/** An earlier import of this source did not finish, and the caller did not say whether to resume or restart it. */
export class ImportUnfinished extends Error {
  override readonly name = 'ImportUnfinished'
  readonly source: string
  /** Number of records that are done. */
  readonly records: number

  constructor({ source, records }: ImportCheckpoint) {
    super(`an import of ${source} did not finish`)
    this.source = source
    this.records = records
  }
}

/**
 * A transaction of this size takes about 80 ms, during which the writes of a running service wait. E-mails are not sorted,
 * so every transaction writes most pages of their index, however many rows it has: with 500 rows per transaction each row
 * took twice as long.
 */
const MAX_BATCH_RECORDS = 2000

/** Hashing takes longer than all else: smaller batches show progress and lose little when the process ends. */
const MAX_BATCH_PASSWORDS = 32

/** A running hash of records. */
export interface RecordHash {
  add(records: readonly ImportRecord[]): void
  /** The digest of all records added so far, followed by these. */
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

/**
 * The records after those of the checkpoint, in batches of one transaction each. Adds the records of the checkpoint
 * to `hash`. Throws `ImportMismatch` if they differ from those that were imported.
 */
export async function* remainingBatches({
  records,
  checkpoint,
  hash,
}: {
  readonly records: AsyncIterable<readonly ImportRecord[]>
  readonly checkpoint: ImportCheckpoint
  readonly hash: RecordHash
}): AsyncGenerator<readonly ImportRecord[]> {
  const { records: resumed, recordsHash, source } = checkpoint
  let passed = 0
  for await (const chunk of records) {
    const old = chunk.slice(0, resumed - passed)
    hash.add(old)
    passed += old.length
    const isLast = old.length > 0 && passed === resumed
    if (isLast && !hash.digestWith([]).equals(recordsHash)) {
      throw new ImportMismatch(
        `the first ${resumed} rows of ${source} have changed since the earlier import, or have other columns`,
      )
    }
    yield* batchesOf(chunk.slice(old.length))
  }
  if (passed < resumed) {
    throw new ImportMismatch(
      `${source} has only ${passed} rows, and the earlier import did ${resumed}`,
    )
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
