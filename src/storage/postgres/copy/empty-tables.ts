import type { Session } from '../postgres-connections.ts'

const SELECT_MAY_TRUNCATE = `
  SELECT bool_and(has_table_privilege(name, 'TRUNCATE'))
  FROM unnest('{users,users_words,users_without_words,idempotency_keys,bans,api_keys}'::text[]) AS emptied (name)`

const TRUNCATE_ALL = `
  TRUNCATE users, users_words, users_without_words, idempotency_keys, bans, api_keys`

const DELETE_ALL_BUT_USERS = ['idempotency_keys', 'bans', 'api_keys', 'users_without_words'].map(
  table => `DELETE FROM ${table}`,
)

/** One statement for millions of users would take longer than a statement may. A trigger deletes their words. */
const DELETE_NEXT_USERS = `
  WITH deleted AS (
    DELETE FROM users WHERE id IN (SELECT id FROM users WHERE id > $1 ORDER BY id LIMIT 10000) RETURNING id
  )
  SELECT max(id) FROM deleted`

/** Deletes all that a copy writes, in the transaction of the session. Much slower if the role may not truncate. */
export async function emptyTables(session: Session): Promise<void> {
  const [row] = await session.query<[boolean]>({ text: SELECT_MAY_TRUNCATE })
  if (row?.[0]) {
    await session.query({ text: TRUNCATE_ALL })
    return
  }
  for (const text of DELETE_ALL_BUT_USERS) await session.query({ text })
  let last: number | null = 0
  while (last !== null) {
    const [deleted]: [number | null][] = await session.query({ text: DELETE_NEXT_USERS }, [last])
    last = deleted?.[0] ?? null
  }
}
