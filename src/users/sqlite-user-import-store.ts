import type { Database } from 'better-sqlite3'
import { translateSqliteError } from '../storage/sqlite-errors.ts'
import type { WriteQueue } from '../storage/write-queue.ts'
import { createUserUpdate } from './sqlite-user-update.ts'
import { foldCase } from './user.ts'
import type {
  ConflictPolicy,
  ImportCheckpoint,
  ImportedUser,
  ImportOutcome,
  UserImportStore,
} from './user-import-store.ts'

export interface SqliteUserImportStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
  /** Milliseconds since the epoch. */
  readonly now: () => number
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
}

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, password_digest, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT DO NOTHING`

const SELECT_ID_BY_EMAIL = `SELECT id FROM users WHERE lower(email) = lower(?)`

const SELECT_DIGEST_BY_EMAIL = `SELECT password_digest FROM users WHERE lower(email) = lower(?)`

const SELECT_VERSION = `SELECT updated_at FROM users WHERE id = ?`

const SELECT_CHECKPOINT = `
  SELECT record_count, records_hash, rejects_bytes,
    created_count, updated_count, unchanged_count, skipped_count, refused_count
  FROM imports WHERE source = ?`

const UPSERT_CHECKPOINT = `
  INSERT OR REPLACE INTO imports (source, record_count, records_hash, rejects_bytes,
    created_count, updated_count, unchanged_count, skipped_count, refused_count, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** Users and how far their import has come, in the tables `users` and `imports`. */
export function createSqliteUserImportStore(
  options: SqliteUserImportStoreOptions,
): UserImportStore {
  const { database, writes, now } = options
  const insert = database.prepare(INSERT)
  const selectIdByEmail = database.prepare<[string], number>(SELECT_ID_BY_EMAIL).pluck()
  const selectDigest = database.prepare<[string], string | null>(SELECT_DIGEST_BY_EMAIL).pluck()
  const selectVersion = database.prepare<[number], string>(SELECT_VERSION).pluck()
  const selectCheckpoint = database.prepare<[string], CheckpointRow>(SELECT_CHECKPOINT)
  const upsertCheckpoint = database.prepare(UPSERT_CHECKPOINT)
  const update = createUserUpdate({ database, now })

  async function read<T>(query: () => T): Promise<T> {
    try {
      return query()
    } catch (error) {
      throw translateSqliteError(error)
    }
  }

  function keep(user: ImportedUser, onConflict: ConflictPolicy): ImportOutcome {
    const { id = null, name, email, passwordDigest = null } = user
    const time = new Date(now()).toISOString()
    const { createdAt = user.updatedAt ?? time, updatedAt = createdAt } = user
    const row = [id, name, foldCase(name), email, passwordDigest, createdAt, updatedAt]
    if (insert.run(row).changes === 1) return 'created'
    if (onConflict === 'skip') return 'skipped'
    const owner = selectIdByEmail.get(email)
    if (onConflict === 'fail') return owner === undefined ? 'id_taken' : 'email_taken'
    if (owner !== undefined && owner !== (user.id ?? owner)) return 'email_taken'
    return change(owner ?? (user.id as number), user)
  }

  function change(id: number, { name, email, passwordDigest }: ImportedUser): ImportOutcome {
    const version = selectVersion.get(id)
    update(id, { name, email, passwordDigest })
    return selectVersion.get(id) === version ? 'unchanged' : 'updated'
  }

  function saveCheckpoint(checkpoint: ImportCheckpoint): void {
    const { source, records, recordsHash, rejectsBytes, counts } = checkpoint
    const { created, updated, unchanged, skipped, refused } = counts
    upsertCheckpoint.run(
      ...[source, records, recordsHash, rejectsBytes],
      ...[created, updated, unchanged, skipped, refused],
      new Date(now()).toISOString(),
    )
  }

  return {
    findCheckpoint: source =>
      read(() => {
        const row = selectCheckpoint.get(source)
        return row && { source, ...checkpointOf(row) }
      }),

    findDigestByEmail: email => read(() => selectDigest.get(email)),

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
      refused: row.refused_count,
    },
  }
}
