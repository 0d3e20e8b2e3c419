import type { CopiedRow } from '../../copy/copied-tables.ts'
import { type CopySession, type CopySource, createCopySource } from '../../copy/copy-ends.ts'
import { OLDER_SCHEMA, UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { LAST_GIVEN_ID } from '../../user-ids.ts'
import { isUnfinishedCopy, openView, requireThere, requireUsable } from '../inspect-database.ts'
import type { Database } from '../sqlite-driver.ts'
import { explainErrors } from '../sqlite-errors.ts'

/** Users with an id that no release gives out and other engines refuse. */
const SELECT_ODD_ID = `
  SELECT CAST(id AS TEXT) FROM users WHERE id < 1 OR id > 9007199254740991 LIMIT 1`

/** Opens one state of a database, which may be in use. Throws `UnusableDatabase`. */
export async function openSqliteCopySource(path: string): Promise<CopySource> {
  requireThere(path)
  const database = await explainErrors(() => openView(path))
  try {
    await explainErrors(() => requireCopyable(database))
    return createCopySource(createSqliteCopySession(database))
  } catch (error) {
    database.close()
    throw error
  }
}

function requireCopyable(database: Database): void {
  if (requireUsable(database).length > 0) throw new UnusableDatabase(OLDER_SCHEMA)
  if (isUnfinishedCopy(database)) throw new UnusableDatabase(UNFINISHED_COPY)
  const id = database.prepare<[], string>(SELECT_ODD_ID).pluck().get()
  if (id === undefined) return
  throw new UnusableDatabase(`user ${id} cannot be copied: ids are from 1 to 9007199254740991`)
}

/** What both ends do. */
export function createSqliteCopySession(database: Database): CopySession {
  const begun: Iterator<CopiedRow>[] = []
  return {
    lastGivenId: LAST_GIVEN_ID.sqlite,

    query: <R>(sql: string) =>
      explainErrors(() => {
        const statement = database.prepare<[], R>(sql)
        if (statement.reader) return statement.raw().all()
        statement.run()
        return []
      }),

    read: (_table, select) =>
      explainErrors(() => {
        const rows = database.prepare<[], CopiedRow>(select).raw().iterate()
        begun.push(rows)
        return limit => explainErrors(() => take(rows, limit))
      }),

    close: async () => {
      // A statement that has more rows keeps its database open.
      for (const rows of begun) rows.return?.()
      database.close()
    },
  }
}

function take<T>(values: Iterator<T>, limit: number): readonly T[] {
  const taken: T[] = []
  while (taken.length < limit) {
    const { done, value } = values.next()
    if (done) break
    taken.push(value)
  }
  return taken
}
