import type {
  ImportBatch,
  ImportCheckpoint,
  ImportedUser,
  UserImportStore,
} from '../../src/users/transfer/user-import-store.ts'

/** Of an import that goes on. */
export const CHECKPOINT: ImportCheckpoint = {
  source: 'users.csv',
  records: 0,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: { created: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 },
  isFinished: false,
}

/** Imports a batch. Resolves to what became of each user. */
export async function importUsers(
  store: UserImportStore,
  users: readonly ImportedUser[],
  onConflict: ImportBatch['onConflict'] = 'fail',
) {
  return (await store.write({ users, onConflict, checkpointAfter: () => CHECKPOINT })).outcomes
}
