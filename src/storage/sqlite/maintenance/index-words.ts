import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MigrateOptions } from '../../database-tasks.ts'
import { START_PATIENCE_MS } from '../inspect-database.ts'
import type { Database } from '../sqlite-driver.ts'
import { clearWords, createWordIndex } from '../word-index.ts'

/** In one transaction, which takes about 50 ms: a service that is running can write in between. */
const USERS_A_STEP = 5000

/** Adds to the index of words all users that it lacks; with `reindex` it is built again. */
export async function indexWords(
  database: Database,
  { reindex = false, onIndexing, signal }: MigrateOptions,
): Promise<void> {
  database.pragma(`busy_timeout = ${START_PATIENCE_MS}`)
  if (reindex) clearWords(database)
  const index = createWordIndex(database)
  const addNext = database.transaction(() => index.addNext(USERS_A_STEP))
  while (index.lacksUsers()) {
    signal?.throwIfAborted()
    onIndexing?.(addNext.immediate())
    await nextTurn()
  }
}
