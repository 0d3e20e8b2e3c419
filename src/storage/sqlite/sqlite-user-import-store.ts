import { requireExactId } from '../../users/stored-user.ts'
import type {
  ConflictPolicy,
  ImportCheckpoint,
  ImportedUser,
  ImportOutcome,
  UserImportStore,
} from '../../users/transfer/user-import-store.ts'
import { foldCase } from '../../users/user-schemas.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { findEach } from './sqlite-statements.ts'
import { createUserUpdate } from './sqlite-user-update.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteUserImportStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Whether users cannot be found by words afterwards. */
  readonly isTrial?: boolean
}

interface CheckpointRow {
  readonly record_count: number
  readonly records_hash: Buffer
  readonly rejects_bytes: number
  readonly created_count: number
  readonly updated_count: number
  readonly unchanged_count: number
  readonly skipped_count: number
  readonly refused_count: number
  readonly is_finished: 0 | 1
}

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, password_digest, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)`

const SELECT_ID_BY_EMAIL = `SELECT id FROM users WHERE lower(email) = lower(?)`

const SELECT_DIGEST_BY_EMAIL = `SELECT password_digest FROM users WHERE lower(email) = lower(?)`

const SELECT_VERSION = `SELECT updated_at FROM users WHERE id = ?`

const SELECT_CHECKPOINT = `
  SELECT record_count, records_hash, rejects_bytes,
    created_count, updated_count, unchanged_count, skipped_count, refused_count, is_finished
  FROM imports WHERE source = ?`

const UPSERT_CHECKPOINT = `
  INSERT OR REPLACE INTO imports (source, record_count, records_hash, rejects_bytes,
    created_count, updated_count, unchanged_count, skipped_count, refused_count, is_finished,
    updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** Imports in the tables `users` and `imports` of SQLite. */
export function createSqliteUserImportStore(
  options: SqliteUserImportStoreOptions,
): UserImportStore {
  const { database, writes, now, isTrial = false } = options
  const words = isTrial ? undefined : writes.words
  const insert = database.prepare(INSERT)
  const selectIdByEmail = database.prepare<[string], number>(SELECT_ID_BY_EMAIL).pluck()
  const selectDigest = database.prepare<[string], string | null>(SELECT_DIGEST_BY_EMAIL).pluck()
  const selectVersion = database.prepare<[number], string>(SELECT_VERSION).pluck()
  const selectCheckpoint = database.prepare<[string], CheckpointRow>(SELECT_CHECKPOINT)
  const upsertCheckpoint = database.prepare(UPSERT_CHECKPOINT)
  const update = createUserUpdate({ database, words, now })

  async function read<T>(query: () => T): Promise<T> {
    try {
      return query()
    } catch (error) {
      throw translateSqliteError(error)
    }
  }

  /** Looks first: an INSERT that violates a constraint would use up an id. */
  function keep(user: ImportedUser, onConflict: ConflictPolicy): ImportOutcome {
    const { id, email } = user
    const owner = selectIdByEmail.get(email)
    const isIdTaken = id !== undefined && selectVersion.get(id) !== undefined
    if (owner === undefined && !isIdTaken) {
      create(user)
      return 'created'
    }
    if (onConflict === 'skip') return 'skipped'
    if (onConflict === 'fail') return owner === undefined ? 'id_taken' : 'email_taken'
    if (owner === undefined) return change(id as number, user)
    const belongsToTwo = isIdTaken && id !== owner
    return belongsToTwo ? 'email_taken' : change(owner, user)
  }

  function create(user: ImportedUser): void {
    const { id = null, name, email, passwordDigest = null } = user
    const time = new Date(now()).toISOString()
    const { createdAt = user.updatedAt ?? time, updatedAt = createdAt } = user
    const row = [id, name, foldCase(name), email, passwordDigest, createdAt, updatedAt]
    const { lastInsertRowid } = insert.run(row)
    requireExactId(lastInsertRowid)
    words?.note(Number(lastInsertRowid))
  }

  function change(id: number, { name, email, passwordDigest }: ImportedUser): ImportOutcome {
    const version = selectVersion.get(id)
    update(id, { name, email, passwordDigest })
    return selectVersion.get(id) === version ? 'unchanged' : 'updated'
  }

  function saveCheckpoint(checkpoint: ImportCheckpoint): void {
    const { source, records, recordsHash, rejectsBytes, counts, isFinished } = checkpoint
    const { created, updated, unchanged, skipped, rejected } = counts
    upsertCheckpoint.run(
      ...[source, records, recordsHash, rejectsBytes],
      ...[created, updated, unchanged, skipped, rejected],
      ...[Number(isFinished), new Date(now()).toISOString()],
    )
  }

  return {
    findCheckpoint: source =>
      read(() => {
        const row = selectCheckpoint.get(source)
        return row && { source, ...checkpointOf(row) }
      }),

    findDigestsByEmail: emails => read(() => findEach(emails, email => selectDigest.get(email))),

    write: ({ users, onConflict, checkpointAfter }) =>
      writes.run(() => {
        const outcomes: ImportOutcome[] = []
        for (const user of users) {
          const outcome = keep(user, onConflict)
          outcomes.push(outcome)
          if (onConflict === 'fail' && outcome !== 'created') break
        }
        saveCheckpoint(checkpointAfter(outcomes))
        return outcomes
      }),
  }
}

function checkpointOf(row: CheckpointRow): Omit<ImportCheckpoint, 'source'> {
  return {
    records: row.record_count,
    recordsHash: row.records_hash,
    rejectsBytes: row.rejects_bytes,
    counts: {
      created: row.created_count,
      updated: row.updated_count,
      unchanged: row.unchanged_count,
      skipped: row.skipped_count,
      rejected: row.refused_count,
    },
    isFinished: row.is_finished === 1,
  }
}
