import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../errors.ts'
import type { PasswordHasher } from '../passwords/hasher.ts'
import {
  createRecordHash,
  ImportMismatch,
  type ImportRecord,
  ImportUnfinished,
  remainingBatches,
} from './import-batches.ts'
import { prepareBatch } from './import-preparation.ts'
import type { ImportRules } from './import-rules.ts'
import { addCounts, NO_COUNTS, type RejectedRow, settleBatch } from './import-settlement.ts'
import type {
  ConflictPolicy,
  ImportBatch,
  ImportCheckpoint,
  ImportCounts,
  ImportOutcome,
  UserImportStore,
  WrittenBatch,
} from './user-import-store.ts'

/** Where the rejected rows are kept. */
export interface RejectsSink {
  /** Keeps the first `bytes` and durably replaces the rest with these rows. Returns the new length in bytes. */
  write(bytes: number, rows: readonly RejectedRow[]): number
}

export interface ImportOptions {
  /** The name by which a later import finds the checkpoint of this one. */
  readonly source: string
  /** In order, in chunks of any size. If it throws the reason of the signal, the import ends as `interrupted`. */
  readonly records: AsyncIterable<readonly ImportRecord[]>
  readonly onConflict: ConflictPolicy
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
  /** Records that are done, including those of earlier runs. */
  readonly records: number
  /** Records that earlier runs did. */
  readonly resumed: number
  /** Of all records that are done. */
  readonly counts: ImportCounts
  /** Rows that the last transaction rejected. */
  readonly rejected: readonly RejectedRow[]
  /** Rows of this run with a conflict that the policy does not settle. */
  readonly conflicts: number
}

/** How an import ended. */
export interface ImportResult {
  readonly end: 'done' | 'interrupted' | 'conflict' | 'failed'
  readonly progress: ImportProgress
  readonly firstConflict: RejectedRow | undefined
  /** Why it `failed`. */
  readonly failure?: unknown
}

export interface UserImporter {
  /**
   * Imports users, each validated by the rules for requests. Every transaction stores a checkpoint with its users, so an
   * import that was interrupted, even by a crash, resumes without losing or repeating a record.
   * Throws `ImportMismatch` and `ImportUnfinished`. Any other failure, such as `storage_unavailable` after PATIENCE_MS
   * without a write, is thrown only while no record is done. After that it is the `failure` of the result.
   */
  run(options: ImportOptions): Promise<ImportResult>
}

export interface UserImporterOptions {
  readonly store: UserImportStore
  readonly rules: ImportRules
  readonly passwords: PasswordHasher
  /** Whether the policy `fail` ends the import at the first conflict; otherwise it rejects every row in conflict. */
  readonly endsAtConflict: boolean
}

/** How long to retry while another process keeps the database locked. */
const PATIENCE_MS = 30_000

const RETRY_MS = 100

export function createUserImporter(dependencies: UserImporterOptions): UserImporter {
  const { store } = dependencies

  async function writePatiently(batch: ImportBatch, signal: AbortSignal): Promise<WrittenBatch> {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      try {
        return await store.write(batch)
      } catch (error) {
        const mayPass = error instanceof ServiceError && error.code === 'storage_unavailable'
        if (!mayPass || performance.now() > deadline) throw error
        signal.throwIfAborted()
        await sleep(RETRY_MS)
      }
    }
  }

  /** The checkpoint to resume from, if any. */
  async function findStart({ source, start }: ImportOptions) {
    const last = await store.findCheckpoint(source)
    if (start === 'new' && last !== undefined && !last.isFinished && last.records > 0) {
      throw new ImportUnfinished(last)
    }
    return start === 'resume' ? last : undefined
  }

  async function run(options: ImportOptions): Promise<ImportResult> {
    const { source, records, onConflict, rejects, onProgress, signal } = options
    const endsAtConflict = onConflict === 'fail' && dependencies.endsAtConflict
    const resumedFrom = await findStart(options)
    let checkpoint = resumedFrom ?? createCheckpoint(source)
    const hash = createRecordHash()
    const { records: resumed, counts: earlierCounts } = checkpoint
    let progress: ImportProgress = {
      records: resumed,
      counts: earlierCounts,
      resumed,
      rejected: [],
      conflicts: 0,
    }
    let firstConflict: RejectedRow | undefined

    async function importBatch(
      batch: readonly ImportRecord[],
      { isFinished = false } = {},
    ): Promise<void> {
      const prepared = await prepareBatch(batch, { ...dependencies, onConflict })
      const settle = (outcomes: readonly ImportOutcome[]) =>
        settleBatch({ batch, prepared, outcomes, endsAtConflict })
      const checkpointAfter = (outcomes: readonly ImportOutcome[]): ImportCheckpoint => {
        const { done, counts, rejected } = settle(outcomes)
        return {
          source,
          records: checkpoint.records + done.length,
          recordsHash: hash.digestWith(done),
          // On disk before the checkpoint is: once that is stored, these rows are not read again.
          rejectsBytes: rejects.write(checkpoint.rejectsBytes, rejected),
          counts: addCounts(checkpoint.counts, counts),
          isFinished,
        }
      }
      const users = prepared.flatMap(item => ('user' in item ? [item.user] : []))
      const written = await writePatiently({ users, onConflict, checkpointAfter }, signal)
      const { done, rejected, conflicts } = settle(written.outcomes)
      hash.add(done)
      checkpoint = written.checkpoint
      firstConflict ??= conflicts[0]
      progress = {
        records: checkpoint.records,
        counts: checkpoint.counts,
        resumed,
        rejected,
        conflicts: progress.conflicts + conflicts.length,
      }
      onProgress(progress)
    }

    try {
      // Overwrites the earlier checkpoint of this source and empties the rejects file.
      if (resumedFrom === undefined) await importBatch([])
      for await (const batch of remainingBatches({ records, checkpoint, hash })) {
        signal.throwIfAborted()
        await importBatch(batch)
        if (endsAtConflict && firstConflict !== undefined) {
          return { end: 'conflict', progress, firstConflict }
        }
      }
      await importBatch([], { isFinished: true })
    } catch (error) {
      if (error === signal.reason) return { end: 'interrupted', progress, firstConflict }
      if (progress.records === 0 || error instanceof ImportMismatch) throw error
      return { end: 'failed', progress, firstConflict, failure: error }
    }
    return { end: 'done', progress, firstConflict }
  }

  return { run }
}

function createCheckpoint(source: string): ImportCheckpoint {
  const recordsHash = createRecordHash().digestWith([])
  const counts = NO_COUNTS
  return { source, records: 0, recordsHash, rejectsBytes: 0, counts, isFinished: false }
}
