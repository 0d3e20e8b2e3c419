import { createApiKeyStore } from '../create-api-key-store.ts'
import { createCopyStore } from '../create-copy-store.ts'
import { createSigningKeys } from '../create-signing-keys.ts'
import { createWebhookStore } from '../create-webhook-store.ts'
import { foldWordsBeside } from '../fold-words.ts'
import { type OpenStorageOptions, reportingCommits, type Storage } from '../storage.ts'
import { openExclusively } from './connect.ts'
import { fileBytesOf } from './database-files.ts'
import { requireFile } from './inspect-database.ts'
import { openLongLists } from './long-reads.ts'
import { openSqlite } from './open-sqlite.ts'
import { createReadView } from './read-view.ts'
import { createSqliteBanStore } from './sqlite-ban-store.ts'
import type { Database } from './sqlite-driver.ts'
import { explainErrors } from './sqlite-errors.ts'
import { createSqliteSharedStatements } from './sqlite-statements.ts'
import { createSqliteUserImportStore, LAST_GIVEN_ID } from './sqlite-user-import-store.ts'
import { createSqliteUserLists } from './sqlite-user-lists.ts'
import { createSqliteUserChanges, createSqliteUserReads } from './sqlite-user-reads.ts'
import { createSqliteUserWrites } from './sqlite-user-writes.ts'
import { SQLITE_WORDS } from './sqlite-words.ts'
import { createWriteQueue } from './write-queue.ts'

/** No commit is lost: the next start reads the WAL. */
const CHECKPOINT_FAILED = 'WAL checkpoint at shutdown failed'

/** 64 MB instead of 4: a page that many transactions write is copied from the WAL into the database once. */
const BULK_CHECKPOINT_PAGES = 16_000

/** Memory for the pages that a large transaction writes. */
const BULK_CACHE_KIB = 64_000

const RESERVE_IDS = [
  `INSERT INTO sqlite_sequence (name, seq)
   SELECT 'users', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'users')`,
  `UPDATE sqlite_sequence SET seq = max(seq, CAST($1 AS INTEGER)) WHERE name = 'users'`,
]

/** Opens SQLite in a file or, for the path `:memory:`, in memory. Throws `UnusableDatabase`. */
export async function openSqliteStorage(
  path: string,
  options: OpenStorageOptions,
): Promise<Storage> {
  if (options.mustPersist) requireFile(path)
  const open = () => openSqlite({ ...options, path })
  if (options.isCopyTarget) await requireUnused(path, open)
  const database = await open()
  try {
    return createSqliteStorage(database, options)
  } catch (error) {
    database.close()
    throw error
  }
}

/** Throws `UnusableDatabase` while another process has a database open: it would serve a part of a copy. */
async function requireUnused(path: string, open: () => Promise<Database>): Promise<void> {
  const created = await open()
  created.close()
  const locked = await explainErrors(() => openExclusively(path))
  locked.close()
}

/** The storage in an open database, which it closes. */
export function createSqliteStorage(database: Database, options: OpenStorageOptions): Storage {
  const { now, steadyNow, uptimeNow, isBulk = false, onWarning } = options
  if (isBulk) {
    database.pragma(`wal_autocheckpoint = ${BULK_CHECKPOINT_PAGES}`)
    database.pragma(`cache_size = -${BULK_CACHE_KIB}`)
  }
  const view = createReadView(database)
  const writes = createWriteQueue(database, view, {
    ...options,
    onCommit: reportingCommits(options),
  })
  const longLists = openLongLists(database)
  const statements = createSqliteSharedStatements(database, writes)
  const folding = foldWordsBeside(statements, SQLITE_WORDS, options)
  const parts = { database, view, writes, statements, now, steadyNow, uptimeNow }
  return {
    users: {
      ...createSqliteUserReads(parts),
      ...createSqliteUserLists(parts, longLists),
      ...createSqliteUserWrites(parts),
    },
    changes: createSqliteUserChanges(parts),
    imports: createSqliteUserImportStore(parts),
    bans: createSqliteBanStore(parts),
    apiKeys: createApiKeyStore(statements),
    copies: createCopyStore(statements, {
      lastGivenId: LAST_GIVEN_ID,
      reserveIds: RESERVE_IDS,
    }),
    webhooks: createWebhookStore(statements),
    signingKey: createSigningKeys(statements),
    readAnew: view.end,
    untilReachable: work => work(),
    isIdle: () => false,
    report: () => ({
      engine: 'sqlite',
      waitingWrites: writes.waiting(),
      ...fileBytesOf(database.name),
    }),
    close: async () => {
      await folding.end()
      await writes.close()
      await longLists.close()
      view.end()
      try {
        database.pragma('wal_checkpoint(TRUNCATE)')
      } catch (error) {
        onWarning?.(CHECKPOINT_FAILED, error)
      }
      database.close()
    },
  }
}
