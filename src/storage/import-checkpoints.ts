import type { ImportCheckpoint, UserImportStore } from '../users/transfer/user-import-store.ts'
import type { SharedStatements } from './storage.ts'

const COLUMNS = [
  ...['record_count', 'records_hash', 'rejects_bytes', 'created_count', 'updated_count'],
  ...['unchanged_count', 'skipped_count', 'refused_count', 'is_finished', 'updated_at'],
]

const SELECT_CHECKPOINT = `SELECT ${COLUMNS.join(', ')} FROM imports WHERE source = $1`

/** Takes the values of `checkpointValues`. SQL for both engines. */
export const UPSERT_CHECKPOINT = `
  INSERT INTO imports (source, ${COLUMNS.join(', ')})
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
  ON CONFLICT (source) DO UPDATE SET ${COLUMNS.map(name => `${name} = excluded.${name}`).join(', ')}`

type CheckpointRow = readonly [
  records: number,
  recordsHash: Buffer,
  rejectsBytes: number,
  created: number,
  updated: number,
  unchanged: number,
  skipped: number,
  rejected: number,
  isFinished: boolean | 0 | 1,
  updatedAt: string,
]

/** Finds checkpoints in the table `imports` of either engine. */
export function createCheckpointFinder({
  read,
}: SharedStatements): UserImportStore['findCheckpoint'] {
  return async source => {
    const [row] = await read<CheckpointRow>(SELECT_CHECKPOINT, [source])
    if (row === undefined) return undefined
    const [records, recordsHash, rejectsBytes, created, updated, unchanged, skipped, rejected] = row
    const counts = { created, updated, unchanged, skipped, rejected }
    return { source, records, recordsHash, rejectsBytes, counts, isFinished: Boolean(row[8]) }
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
