import { BANS, type CopiedRow, type CopiedTable } from '../../copy/copied-tables.ts'
import type { CopyEnd, CopySource } from '../../copy/copy-ends.ts'
import { OLDER_SCHEMA, UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { isUnfinishedCopy, openView, requireThere, requireUsable } from '../inspect-database.ts'
import type { Database } from '../sqlite-driver.ts'
import { explainErrors } from '../sqlite-errors.ts'

const COUNT_USERS = `SELECT user_count FROM users_summary WHERE singleton = 1`

/** Users with an id that no release gives out and other engines refuse. */
const SELECT_ODD_ID = `
  SELECT CAST(id AS TEXT) FROM users WHERE id < 1 OR id > 9007199254740991 LIMIT 1`

const SELECT_LAST_ID = `
  SELECT max(coalesce((SELECT max(id) FROM users), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0))`

/** Opens one state of a database, which may be in use. Throws `UnusableDatabase`. */
export async function openSqliteCopySource(path: string): Promise<CopySource> {
  requireThere(path)
  const database = await explainErrors(() => openView(path))
  try {
    await explainErrors(() => requireCopyable(database))
    const countUsers = database.prepare<[], number>(COUNT_USERS).pluck()
    return {
      ...createSqliteCopyEnd(database),
      countUsers: () => explainErrors(() => countUsers.get() ?? 0),
    }
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
export function createSqliteCopyEnd(database: Database): CopyEnd {
  const begun = new Map<CopiedTable, IterableIterator<CopiedRow>>()
  const selectLastId = database.prepare<[], number>(SELECT_LAST_ID).pluck()

  function beginTable(table: CopiedTable): IterableIterator<CopiedRow> {
    const rows = database.prepare<[], CopiedRow>(selectOf(table)).raw().iterate()
    begun.set(table, rows)
    return rows
  }

  return {
    next: (table, limit) =>
      explainErrors(() => {
        const rows = begun.get(table) ?? beginTable(table)
        const chunk: CopiedRow[] = []
        while (chunk.length < limit) {
          const { done, value } = rows.next()
          if (done) break
          chunk.push(value)
        }
        return chunk
      }),
    lastId: () => explainErrors(() => requireExact(selectLastId.get() ?? 0)),
    close: async () => {
      // A statement that has more rows keeps its database open.
      for (const rows of begun.values()) rows.return?.()
      database.close()
    },
  }
}

/** A ban without `lasts_ms` gets a length of decades, as in the service. */
function selectOf(table: CopiedTable): string {
  const columns = Object.keys(table.columns).join(', ')
  const complete =
    table === BANS ? columns.replace('lasts_ms', 'coalesce(lasts_ms, ends_at)') : columns
  return `SELECT ${complete} FROM ${table.name} ORDER BY 1`
}

/** No release gives out a greater id, but a program that writes to the file can. */
function requireExact(lastId: number): number {
  if (Number.isSafeInteger(lastId)) return lastId
  throw new UnusableDatabase('it has given out ids greater than 9007199254740991')
}
