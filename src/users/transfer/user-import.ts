import { createHash, type Hash } from 'node:crypto'
import { OperatorError, ServiceError } from '../../errors.ts'
import { performance, sleep } from '../../platform/timers.ts'
import { EMAIL_TAKEN } from '../user-schemas.ts'
import {
  type ImportRecord,
  type PreparationOptions,
  type Prepared,
  prepareBatch,
  type RejectedRow,
} from './import-rows.ts'
import type {
  ImportBatch,
  ImportCheckpoint,
  ImportCounts,
  ImportOutcome,
  UserImportStore,
} from './user-import-store.ts'

/** The source is not that of the earlier import, or that one did not finish and the caller did not say what to do about it. */
class WrongStart extends OperatorError {}

/** Where the rejected rows are kept. */
export interface RejectsSink {
  /** Keeps the first `bytes` and durably replaces the rest with these rows. Returns the new length in bytes. */
  write(bytes: number, rows: readonly RejectedRow[]): number
}

export interface ImportOptions extends PreparationOptions {
  readonly store: UserImportStore
  /** Whether the policy `fail` ends the import at the first conflict; otherwise it rejects every row in conflict. */
  readonly endsAtConflict: boolean
  /** The name by which a later import finds the checkpoint of this one. */
  readonly source: string
  /** What decides how records are read, besides their texts. A resumed import needs the same. */
  readonly seed?: string
  /** In order, in chunks of any size. If it throws the reason of the signal, the import ends as `interrupted`. */
  readonly records: AsyncIterable<readonly ImportRecord[]>
  /**
   * Where to begin. `resume`: after the records that are done, or at the first if there is no checkpoint.
   * `restart`: at the first record. `new`: the same, but only if no earlier import of this source is unfinished.
   */
  readonly start: 'new' | 'resume' | 'restart'
  readonly rejects: RejectsSink
  /** Called after each transaction. */
  readonly onProgress: (progress: ImportProgress) => void
  /** Ends the import after the current transaction. */
  readonly signal: AbortSignal
}

export interface ImportProgress {
  /** How far all runs together have come. */
  readonly checkpoint: ImportCheckpoint
  /** Records that earlier runs did. */
  readonly resumed: number
  /** Rows that the last transaction rejected. */
  readonly rejected: readonly RejectedRow[]
  /** Rows of this run with a conflict that the policy does not settle, and the first of them. */
  readonly conflicts: number
  readonly firstConflict: RejectedRow | undefined
}

export interface ImportResult {
  readonly end: 'done' | 'interrupted' | 'conflict' | 'failed'
  readonly progress: ImportProgress
  /** Why it failed. */
  readonly failure?: unknown
}

/** With passwords: hashing takes longer than all else, and smaller batches show progress and lose little when the process ends. */
const MAX_HASHED_RECORDS = 32

/** How long to retry while another process keeps the database locked. */
const PATIENCE_MS = 30_000

const RETRY_MS = 100

/**
 * Imports users, each validated by the rules for requests. Every transaction stores a checkpoint with its users, so an
 * import that was interrupted, even by a crash, resumes without losing or repeating a record.
 * Throws `OperatorError` for a wrong start. Any other failure, such as `storage_unavailable` after PATIENCE_MS
 * without a write, is thrown only while no record is done. After that it is the `failure` of the result.
 */
export async function runImport(options: ImportOptions): Promise<ImportResult> {
  const { store, source, onConflict, start, rejects, signal } = options
  const endsAtConflict = onConflict === 'fail' && options.endsAtConflict
  const last = await store.findCheckpoint(source)
  if (start === 'new' && last !== undefined && !last.isFinished && last.records > 0) {
    const choice = '--resume continues after them, --restart begins at the first row'
    const rows = last.records.toLocaleString('en')
    throw new WrongStart([
      `an earlier import of ${nameOf(source)} stopped after ${rows} rows: ${choice}`,
    ])
  }
  const resumedFrom = start === 'resume' ? last : undefined
  const checkpoint = resumedFrom ?? createCheckpoint(source)
  const resumed = checkpoint.records
  let progress: ImportProgress = {
    ...{ checkpoint, resumed, rejected: [], conflicts: 0, firstConflict: undefined },
  }
  /** The hash of the records that are done. */
  let hash = createHash('sha256').update(options.seed ?? '')

  async function importBatch(batch: readonly ImportRecord[], isFinished = false): Promise<void> {
    const prepared = await prepareBatch(batch, options)
    // A transaction may be repeated. What its last attempt comes to is stored.
    let next = { progress, hash }
    const checkpointAfter = (outcomes: readonly ImportOutcome[]) => {
      const { records, rejectsBytes, counts: before } = progress.checkpoint
      const settled = settle(prepared, { outcomes, endsAtConflict, counts: before })
      const { done, counts, rejected, conflicts } = settled
      const hashAfter = addRecords(hash.copy(), batch.slice(0, done))
      const checkpoint = {
        ...{ source, counts, isFinished, records: records + done },
        recordsHash: hashAfter.copy().digest(),
        // On disk before the checkpoint is: once that is stored, these rows are not read again.
        rejectsBytes: rejects.write(rejectsBytes, rejected),
      }
      const all = progress.conflicts + conflicts.length
      const firstConflict = progress.firstConflict ?? conflicts[0]
      next = {
        progress: { checkpoint, resumed, rejected, conflicts: all, firstConflict },
        hash: hashAfter,
      }
      return checkpoint
    }
    const users = prepared.flatMap(({ user }) => user ?? [])
    await writePatiently(store, { users, onConflict, checkpointAfter }, signal)
    progress = next.progress
    hash = next.hash
    options.onProgress(progress)
  }

  try {
    // Overwrites the earlier checkpoint of this source and empties the rejects file.
    if (resumedFrom === undefined) await importBatch([])
    for await (const batch of remainingBatches(options, { checkpoint, hash })) {
      signal.throwIfAborted()
      await importBatch(batch)
      if (endsAtConflict && progress.conflicts > 0) return { end: 'conflict', progress }
    }
    await importBatch([], true)
  } catch (error) {
    if (error === signal.reason) return { end: 'interrupted', progress }
    if (progress.checkpoint.records === 0 || error instanceof WrongStart) throw error
    return { end: 'failed', progress, failure: error }
  }
  return { end: 'done', progress }
}

async function writePatiently(
  store: UserImportStore,
  batch: ImportBatch,
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      await store.write(batch)
      return
    } catch (error) {
      const mayPass = error instanceof ServiceError && error.code === 'storage_unavailable'
      if (!mayPass || performance.now() > deadline) throw error
      signal.throwIfAborted()
      await sleep(RETRY_MS)
    }
  }
}

/** The name of a source in messages: a file, or `-` for standard input. */
export function nameOf(source: string): string {
  return source === '-' ? 'standard input' : source
}

function createCheckpoint(source: string): ImportCheckpoint {
  const recordsHash = createHash('sha256').digest()
  const counts = { created: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 }
  return { source, records: 0, recordsHash, rejectsBytes: 0, counts, isFinished: false }
}

/** Adds records to the hash by which a resumed import recognises them, and returns it. */
function addRecords(hash: Hash, records: readonly ImportRecord[]): Hash {
  return hash.update(records.map(({ raw }) => `${raw}\n`).join(''))
}

/**
 * The records after those of the checkpoint, in batches of one transaction each. Adds the records of the checkpoint
 * to `hash`. Throws `WrongStart` if they differ from those that were imported.
 */
async function* remainingBatches(
  { records, store }: Pick<ImportOptions, 'records' | 'store'>,
  { checkpoint, hash }: { readonly checkpoint: ImportCheckpoint; readonly hash: Hash },
): AsyncGenerator<readonly ImportRecord[]> {
  const { records: resumed, recordsHash, source } = checkpoint
  let passed = 0
  for await (const chunk of records) {
    const old = chunk.slice(0, resumed - passed)
    passed += old.length
    const isWhole = addRecords(hash, old).copy().digest().equals(recordsHash)
    if (old.length > 0 && passed === resumed && !isWhole) {
      throw new WrongStart([
        `the first ${resumed} rows of ${nameOf(source)} have changed since the earlier import, or have other columns; --column, --ignore, --name-from, --null, --escape and --passwords must be as they were`,
      ])
    }
    const rest = chunk.slice(old.length)
    for (let start = 0, end = 0; start < rest.length; start = end) {
      end = endOfBatch(rest, { start, most: store.batchRows() })
      yield rest.slice(start, end)
    }
  }
  if (passed < resumed) {
    throw new WrongStart([
      `${nameOf(source)} has only ${passed} rows, and the earlier import did ${resumed}`,
    ])
  }
}

/** A batch ends with its last record or its last password to hash. The rest is divided into batches of about one size. */
function endOfBatch(
  records: readonly ImportRecord[],
  { start, most }: { readonly start: number; readonly most: number },
): number {
  const rest = records.length - start
  const last = start + Math.ceil(rest / Math.ceil(rest / most))
  let end = start
  for (let passwords = 0; end < last && passwords < MAX_HASHED_RECORDS; end++) {
    const { content } = records[end] as ImportRecord
    if ('row' in content && Object(content.row).password != null) passwords++
  }
  return end
}

/** Joins a batch with the outcomes of its users: one for each, up to the conflict that ended it. */
function settle(
  prepared: readonly Prepared[],
  given: {
    readonly outcomes: readonly ImportOutcome[]
    readonly endsAtConflict: boolean
    /** Those of earlier batches, to which this one is added. */
    readonly counts: ImportCounts
  },
) {
  const outcomes = given.outcomes.values()
  const counts: Record<keyof ImportCounts, number> = { ...given.counts }
  const rejected: RejectedRow[] = []
  /** The rows in conflict with another user: rejected ones, or the one at which the import ends. */
  const conflicts: RejectedRow[] = []
  for (const [done, { line, user, errors }] of prepared.entries()) {
    const outcome = user === undefined ? 'skipped' : (outcomes.next().value as ImportOutcome)
    const taken = outcome === 'email_taken' || outcome === 'id_taken' ? TAKEN[outcome] : undefined
    if (taken !== undefined) conflicts.push({ line, errors: taken })
    if (taken !== undefined && given.endsAtConflict) return { done, counts, rejected, conflicts }
    const problems = taken ?? errors
    if (problems !== undefined) rejected.push({ line, errors: problems })
    counts[problems === undefined ? (outcome as keyof ImportCounts) : 'rejected']++
  }
  return { done: prepared.length, counts, rejected, conflicts }
}

const TAKEN = {
  email_taken: { email: EMAIL_TAKEN.messages },
  id_taken: { id: EMAIL_TAKEN.messages },
}
