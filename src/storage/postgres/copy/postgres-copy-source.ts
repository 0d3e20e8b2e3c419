import type { PostgresLocation } from '../../../config/postgres-url.ts'
import type { CopiedRow, CopiedTable } from '../../copy/copied-tables.ts'
import type { CopyEnd, CopySource } from '../../copy/copy-ends.ts'
import { fromStored } from '../ban-text.ts'
import { beginCopy, type CopySession } from './copy-session.ts'

const COUNT_USERS = `SELECT coalesce(sum(user_count), 0)::bigint FROM users_summary`

/** Unlike `SELECT FROM users_id_seq`, it needs no more than the service: USAGE of the sequence. */
const SELECT_LAST_ID = `
  SELECT greatest(coalesce(pg_sequence_last_value('users_id_seq'::regclass), 0),
    coalesce((SELECT max(id) FROM users), 0))`

/** Sorting all users would take longer than a statement may. */
const FOLLOW_INDEXES = `SELECT set_config('enable_sort', 'off', true)`

/** Opens one state of a database, which may be in use. Throws `UnusableDatabase`. */
export async function openPostgresCopySource(
  location: PostgresLocation,
  answerTimeoutMs?: number,
): Promise<CopySource> {
  const session = await beginCopy({ location, end: 'source', answerTimeoutMs })
  return {
    ...createPostgresCopyEnd(session),
    countUsers: async () => {
      const [row] = await session.query<[number]>(COUNT_USERS)
      return row?.[0] ?? 0
    },
  }
}

/** What both ends do, in the transaction of the session. */
export function createPostgresCopyEnd(session: CopySession): CopyEnd {
  const declared = new Set<CopiedTable>()

  async function declare(table: CopiedTable): Promise<void> {
    const names = Object.keys(table.columns).join(', ')
    await session.query(FOLLOW_INDEXES)
    const select = `SELECT ${names} FROM ${table.name} ORDER BY 1`
    await session.query(`DECLARE copied_${table.name} NO SCROLL CURSOR FOR ${select}`)
    declared.add(table)
  }

  return {
    next: async (table, limit) => {
      if (!declared.has(table)) await declare(table)
      const text = `FETCH ${limit} FROM copied_${table.name}`
      const rows = await session.query<CopiedRow>(text)
      const types = Object.values(table.columns)
      if (!types.includes('anyText')) return rows
      return rows.map(row =>
        row.map((value, at) => (types[at] === 'anyText' ? fromStored(String(value)) : value)),
      )
    },
    lastId: async () => {
      const [row] = await session.query<[number]>(SELECT_LAST_ID)
      return row?.[0] ?? 0
    },
    close: async () => session.close(),
  }
}
