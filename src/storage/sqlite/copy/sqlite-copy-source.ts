import type { CopySource } from '../../copy/database-copy.ts'
import { OLDER_SCHEMA, UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { openView, requireThere, requireUsable } from '../inspect-database.ts'
import { isUnfinishedCopy } from '../sqlite-copy-mark.ts'
import type { Database } from '../sqlite-driver.ts'
import { explainErrors } from '../unusable-reasons.ts'
import { createSqliteCopyReader } from './sqlite-copy-reader.ts'

const COUNT_USERS = `SELECT user_count FROM users_summary WHERE singleton = 1`

/** Users with an id that no release gives out and other engines refuse. */
const SELECT_ODD_ID = `
  SELECT CAST(id AS TEXT) FROM users WHERE id < 1 OR id > 9007199254740991 LIMIT 1`

/** Opens one state of a database, which may be in use. Throws `UnusableDatabase`. */
export async function openSqliteCopySource(path: string): Promise<CopySource> {
  requireThere(path)
  const database = await explainErrors(() => openView(path))
  try {
    const reader = await explainErrors(() => {
      requireCopyable(database)
      return createSqliteCopyReader(database)
    })
    await explainErrors(() => requireUsualIds(database))
    const countUsers = database.prepare<[], number>(COUNT_USERS).pluck()
    return {
      ...reader,
      countUsers: () => explainErrors(() => countUsers.get() ?? 0),
      close: async () => {
        database.close()
      },
    }
  } catch (error) {
    database.close()
    throw error
  }
}

function requireCopyable(database: Database): void {
  if (requireUsable(database).length > 0) throw new UnusableDatabase(OLDER_SCHEMA)
  if (isUnfinishedCopy(database)) throw new UnusableDatabase(UNFINISHED_COPY)
}

function requireUsualIds(database: Database): void {
  const id = database.prepare<[], string>(SELECT_ODD_ID).pluck().get()
  if (id === undefined) return
  throw new UnusableDatabase(`user ${id} cannot be copied: ids are from 1 to 9007199254740991`)
}
