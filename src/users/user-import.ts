import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../errors.ts'
import { createRecordHash, type ImportRecord, remainingBatches } from './import-batches.ts'
import {
  byField,
  type ImportRefusal,
  NO_COUNTS,
  NOTHING_SETTLED,
  type Prepared,
  type Settled,
  settle,
  sumOf,
} from './import-settlement.ts'
import type { PasswordHasher } from './passwords.ts'
import type { ImportedUserInput, UserRules } from './user.ts'
import type {
  ConflictPolicy,
  ImportBatch,
  ImportCheckpoint,
  ImportCounts,
  ImportedUser,
  ImportOutcome,
  UserImportStore,
} from './user-import-store.ts'

/** Where refusals are kept. */
export interface RefusalSink {
  /** Writes refusals behind the first `bytes` of what is there, durably; the new length in bytes. */
  write(bytes: number, refusals: readonly ImportRefusal[]): number
}

export interface ImportOptions {
  /** The name by which an interrupted import is found again. */
  readonly source: string
  /** In their order, some at a time; throwing the reason of the signal ends the import as the signal does. */
  readonly records: AsyncIterable<readonly ImportRecord[]>
  readonly onConflict: ConflictPolicy
  /** Whether to go on where the last import of this source ended, or from its start where there was none. */
  readonly resume: boolean
  readonly refusals: RefusalSink
  /** Called after each transaction. */
  readonly onProgress: (progress: ImportProgress) => void
  /** Ends the import after the transaction that is under way. */
  readonly signal: AbortSignal
}

export interface ImportProgress {
  /** Records that are done with, those of earlier sittings among them. */
  readonly records: number
  /** Of them, done in an earlier sitting. */
  readonly resumed: number
  readonly counts: ImportCounts
  /** Of the newest transaction. */
  readonly refusals: readonly ImportRefusal[]
}

/** How an import ended. */
export interface ImportResult {
  readonly end: 'done' | 'interrupted' | 'conflict'
  readonly progress: ImportProgress
  /** The conflict that ended it. */
  readonly conflict?: ImportRefusal
}

export interface UserImporter {
  /**
   * Brings in users, each validated by the rules that clients are under. Each transaction keeps with its users how far
   * the import has come, so that one that was interrupted, by whatever, goes on with nothing lost and nothing twice.
   * Throws `ImportMismatch`, and `storage_unavailable` when the storage cannot be written for PATIENCE_MS.
   */
  run(options: ImportOptions): Promise<ImportResult>
}

export interface UserImporterOptions {
  readonly store: UserImportStore
  readonly rules: UserRules
  /** `undefined` for a dry run, which hashes nothing. */
  readonly passwords: PasswordHasher | undefined
}

/** How long to try again where another process keeps the database locked. */
const PATIENCE_MS = 30_000

const RETRY_MS = 100

/** Stands for a digest that is not computed. */
const SOME_DIGEST = '$'

export function createUserImporter({ store, rules, passwords }: UserImporterOptions): UserImporter {
  async function prepare(record: ImportRecord, onConflict: ConflictPolicy): Promise<Prepared> {
    const { line, content } = record
    if ('problem' in content) return { refusal: { line, errors: { row: [content.problem] } } }
    const parsed = rules.parseImported(content.row)
    if ('errors' in parsed) return { refusal: { line, errors: byField(parsed.errors) } }
    const { password, email } = parsed.user
    const user = toImportedUser(parsed.user)
    if (password == null) return { user }
    if (passwords === undefined) return { user: { ...user, passwordDigest: SOME_DIGEST } }
    const known = onConflict === 'fail' ? undefined : await store.findDigestByEmail(email)
    // What is there already is not hashed in vain.
    if (known !== undefined && onConflict === 'skip') return { isSkipped: true }
    const isSame = known != null && (await passwords.verify(known, password))
    return { user: { ...user, passwordDigest: isSame ? known : await passwords.hash(password) } }
  }

  async function writePatiently(batch: ImportBatch, signal: AbortSignal) {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      try {
        return await store.write(batch)
      } catch (error) {
        const mayPass =
          error instanceof ServiceError &&
          error.code === 'storage_unavailable' &&
          !error.details.isDamaged
        if (!mayPass || performance.now() > deadline) throw error
        signal.throwIfAborted()
        await sleep(RETRY_MS)
      }
    }
  }

  async function run(options: ImportOptions): Promise<ImportResult> {
    const { source, onConflict, resume, refusals: sink, onProgress, signal } = options
    const begun = resume ? await store.findCheckpoint(source) : undefined
    let checkpoint = begun ?? createCheckpoint(source)
    const hash = createRecordHash()
    const resumed = checkpoint.records
    let progress: ImportProgress = { ...checkpoint, resumed, refusals: [] }

    async function bringIn(batch: readonly ImportRecord[]): Promise<ImportRefusal | undefined> {
      const prepared = await Promise.all(batch.map(record => prepare(record, onConflict)))
      const before = checkpoint
      let settled: Settled = NOTHING_SETTLED
      const checkpointAfter = (outcomes: readonly ImportOutcome[]) => {
        settled = settle({ batch, prepared, outcomes, onConflict })
        const { done, counts, refusals } = settled
        checkpoint = {
          source,
          records: before.records + done.length,
          recordsHash: hash.digestWith(done),
          rejectsBytes: sink.write(before.rejectsBytes, refusals),
          counts: sumOf(before.counts, counts),
        }
        return checkpoint
      }
      const users = prepared.flatMap(item => ('user' in item ? [item.user] : []))
      await writePatiently({ users, onConflict, checkpointAfter }, signal)
      const { done, refusals, conflict } = settled
      hash.add(done)
      progress = { ...checkpoint, resumed, refusals }
      onProgress(progress)
      return conflict
    }

    try {
      // Nothing of an earlier import of this source is gone on with, nor kept in the file of refusals.
      if (begun === undefined) await bringIn([])
      for await (const batch of remainingBatches({ ...options, checkpoint, hash })) {
        signal.throwIfAborted()
        const conflict = await bringIn(batch)
        if (conflict !== undefined) return { end: 'conflict', progress, conflict }
      }
    } catch (error) {
      if (error !== signal.reason) throw error
      return { end: 'interrupted', progress }
    }
    return { end: 'done', progress }
  }

  return { run }
}

function createCheckpoint(source: string): ImportCheckpoint {
  const recordsHash = createRecordHash().digestWith([])
  return { source, records: 0, recordsHash, rejectsBytes: 0, counts: NO_COUNTS }
}

/** Less a password that is to be hashed. */
function toImportedUser(input: ImportedUserInput): ImportedUser {
  const { id, name, email, password, password_digest: digest } = input
  const passwordDigest = digest ?? (password === null ? null : digest)
  return {
    id,
    name,
    email,
    passwordDigest,
    createdAt: input.created_at,
    updatedAt: input.updated_at,
  }
}
