import type { ImportCheckpoint } from '../users/transfer/user-import-store.ts'

const COLUMNS = `record_count, records_hash, rejects_bytes, created_count, updated_count, unchanged_count,
    skipped_count, refused_count, is_finished`

/** Selects a `CheckpointRow` by its source. SQL for both engines, as the one below. */
export const SELECT_CHECKPOINT = `SELECT ${COLUMNS} FROM imports WHERE source = $1`

/** Takes the values of `checkpointValues`. */
export const UPSERT_CHECKPOINT = `
  INSERT INTO imports (source, ${COLUMNS}, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
  ON CONFLICT (source) DO UPDATE SET
    record_count = excluded.record_count, records_hash = excluded.records_hash,
    rejects_bytes = excluded.rejects_bytes, created_count = excluded.created_count,
    updated_count = excluded.updated_count, unchanged_count = excluded.unchanged_count,
    skipped_count = excluded.skipped_count, refused_count = excluded.refused_count,
    is_finished = excluded.is_finished, updated_at = excluded.updated_at`

export type CheckpointRow = readonly [
  records: number,
  recordsHash: Buffer,
  rejectsBytes: number,
  created: number,
  updated: number,
  unchanged: number,
  skipped: number,
  rejected: number,
  isFinished: boolean | 0 | 1,
]

export function checkpointOf(
  source: string,
  row: CheckpointRow | undefined,
): ImportCheckpoint | undefined {
  if (row === undefined) return undefined
  const [records, recordsHash, rejectsBytes, created, updated, unchanged, skipped, rejected] = row
  return {
    source,
    records,
    recordsHash,
    rejectsBytes,
    counts: { created, updated, unchanged, skipped, rejected },
    isFinished: Boolean(row[8]),
  }
}

/** `now` is in milliseconds since the epoch. */
export function checkpointValues(checkpoint: ImportCheckpoint, now: number): readonly unknown[] {
  const { source, records, recordsHash, rejectsBytes, counts, isFinished } = checkpoint
  const { created, updated, unchanged, skipped, rejected } = counts
  return [
    ...[source, records, recordsHash, rejectsBytes],
    ...[created, updated, unchanged, skipped, rejected],
    ...[Number(isFinished), new Date(now).toISOString()],
  ]
}
