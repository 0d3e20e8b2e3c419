import type { ImportCheckpoint } from '../../users/transfer/user-import-store.ts'
import type { Session } from './postgres-connections.ts'

const COLUMNS = `record_count, records_hash, rejects_bytes, created_count, updated_count, unchanged_count,
    skipped_count, refused_count, is_finished`

const SELECT = `SELECT ${COLUMNS} FROM imports WHERE source = $1`

const UPSERT = `
  INSERT INTO imports (source, ${COLUMNS}, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
  ON CONFLICT (source) DO UPDATE SET
    record_count = EXCLUDED.record_count, records_hash = EXCLUDED.records_hash,
    rejects_bytes = EXCLUDED.rejects_bytes, created_count = EXCLUDED.created_count,
    updated_count = EXCLUDED.updated_count, unchanged_count = EXCLUDED.unchanged_count,
    skipped_count = EXCLUDED.skipped_count, refused_count = EXCLUDED.refused_count,
    is_finished = EXCLUDED.is_finished, updated_at = EXCLUDED.updated_at`

type CheckpointRow = readonly [
  records: number,
  recordsHash: Buffer,
  rejectsBytes: number,
  created: number,
  updated: number,
  unchanged: number,
  skipped: number,
  rejected: number,
  isFinished: boolean,
]

/** The last checkpoint of an import from `source`. */
export async function readCheckpoint(
  session: Session,
  source: string,
): Promise<ImportCheckpoint | undefined> {
  const [row] = await session.query<CheckpointRow>({ text: SELECT }, [source])
  if (row === undefined) return undefined
  const [records, recordsHash, rejectsBytes, created, updated, unchanged, skipped, rejected] = row
  return {
    source,
    records,
    recordsHash,
    rejectsBytes,
    counts: { created, updated, unchanged, skipped, rejected },
    isFinished: row[8],
  }
}

/** Replaces the checkpoint of its source. `now` is in milliseconds since the epoch. */
export async function saveCheckpoint(
  session: Session,
  checkpoint: ImportCheckpoint,
  now: number,
): Promise<void> {
  const { source, records, recordsHash, rejectsBytes, counts, isFinished } = checkpoint
  const { created, updated, unchanged, skipped, rejected } = counts
  await session.query({ text: UPSERT }, [
    ...[source, records, recordsHash, rejectsBytes],
    ...[created, updated, unchanged, skipped, rejected],
    ...[isFinished, new Date(now).toISOString()],
  ])
}
