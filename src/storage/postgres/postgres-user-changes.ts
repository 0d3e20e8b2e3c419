import { NoAnswer, withinPatience } from '../../platform/patience.ts'
import { MAX_ID } from '../../users/stored-user.ts'
import type { UserChanges } from '../../users/user-changes.ts'
import {
  BASELINE_ROWS,
  type ChangeDialect,
  type ChangeRow,
  createChangeStore,
} from '../create-change-store.ts'
import {
  type Connections,
  createPostgresSharedStatements,
  type Statement,
} from './postgres-connections.ts'
import { unavailable } from './postgres-errors.ts'
import { REPRESENTATION } from './user-reads.ts'

/**
 * The server, how often a standby was promoted to be it, the database, which may be a copy that CREATE DATABASE made, and the
 * table, which `pg_restore` makes anew. A standby may have lost the last transactions, whose numbers are then given out again.
 * NULL on a standby.
 */
export const SERVER = `(
  SELECT CASE WHEN NOT pg_is_in_recovery() THEN concat_ws(
    '/', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_database.oid, 'user_feed'::regclass::oid) END
  FROM pg_control_system(), pg_database WHERE datname = current_database())`

/** All transactions below it have ended. */
const OLDEST = `pg_snapshot_xmin(pg_current_snapshot())`

/** The feed of a part as JSON, made once for all rows. Numbers of transactions are text: they have 64 bits. */
const FEED = `(
  SELECT baseline_through, json_build_object(
    'mark', mark, 'baseline', baseline_through, 'isOfThisServer', server = ${SERVER},
    'isFiltered', row_security_active('users'),
    'forgotten', json_build_object('key', forgotten_in::text, 'id', forgotten_id),
    'seenBefore', ${OLDEST}::text, 'end', pg_snapshot_xmax(pg_current_snapshot())::text)::text AS feed
  FROM user_feed OFFSET 0) AS user_feed`

/** Users with a change come later, with that. */
const SELECT_BASELINE: Statement = {
  name: 'read_users_before_feed',
  text: `
    SELECT found.*, NULL, feed FROM ${FEED} LEFT JOIN LATERAL (
      SELECT users.id, updated_at, CASE WHEN NOT EXISTS (
        SELECT FROM user_changes WHERE user_changes.id = users.id) THEN ${REPRESENTATION} END
      FROM users WHERE baseline_through > 0 AND (updated_at, users.id) > ($1, $2)
      ORDER BY updated_at, users.id LIMIT ${BASELINE_ROWS}
    ) AS found ON true`,
}

/** As triggers write it. */
const NOW = `to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/**
 * In one statement, so that all of it is of one moment. A user that is gone without a recorded deletion, because triggers were off,
 * is deleted as of now. A bare `changed_in` in ORDER BY would be the text, which sorts 1000 before 999.
 */
const SELECT_CHANGES: Statement = {
  name: 'read_changes',
  text: `
    SELECT found.*, feed FROM ${FEED} LEFT JOIN LATERAL (
      SELECT user_changes.id, changed_in::text, CASE WHEN deleted_at IS NULL THEN ${REPRESENTATION} END,
        coalesce(deleted_at, CASE WHEN users.id IS NULL THEN ${NOW} END) AS deleted_at
      FROM user_changes LEFT JOIN users ON users.id = user_changes.id
      WHERE (changed_in, user_changes.id) > ($1::xid8, $2) AND changed_in < ${OLDEST}
      ORDER BY user_changes.changed_in, user_changes.id LIMIT $3
    ) AS found ON true`,
}

const SELECT_LAST: Statement = {
  name: 'read_last_change',
  text: `
    SELECT CASE WHEN server <> ${SERVER} THEN '' ELSE mark END, coalesce(changed_in::text, '0'), coalesce(id, 0)
    FROM user_feed LEFT JOIN (
      SELECT changed_in, id FROM user_changes WHERE changed_in < ${OLDEST}
      ORDER BY changed_in DESC, id DESC LIMIT 1) AS newest ON true`,
}

const NEW_MARK = `md5(random()::text || clock_timestamp()::text)`

/** For a database that was put back: a follower may have read changes that it does not have. */
export const EXPIRE_CURSORS = `UPDATE user_feed SET mark = ${NEW_MARK}`

/** Whether `one` of two values of `server` is that of a dump that became the other one: its transactions mean nothing there. */
const isRestored = (one: string, other: string) => `
  (split_part(${one}, '/', 1), split_part(${one}, '/', 4)) <> (split_part(${other}, '/', 1), split_part(${other}, '/', 4))`

/** After a promotion the numbers of transactions still mean something, but cursors may be those of a lost future. */
const BEGIN_ANEW = `
  UPDATE user_feed SET mark = ${NEW_MARK}, server = ${SERVER}
  FROM user_feed AS former WHERE user_feed.server IS DISTINCT FROM ${SERVER}
  RETURNING ${isRestored('former.server', 'user_feed.server')}`

const FORGET_ALL = `
  WITH forgotten AS (DELETE FROM user_changes)
  UPDATE user_feed SET baseline_through = ${MAX_ID}, forgotten_in = '0', forgotten_id = 0`

/** A write of one of their users waits for the end of the statement. */
const CHANGES_A_TIME = 5000

/** Forgets the changes of the next users, unless the feed has begun anew. The lock keeps it as it is until the commit. */
const FORGET_NEXT = `
  WITH restored AS (
    SELECT FROM user_feed WHERE ${isRestored('server', SERVER)} FOR SHARE
  ), next AS (
    SELECT id FROM user_changes WHERE id > $1 AND EXISTS (SELECT FROM restored) ORDER BY id LIMIT ${CHANGES_A_TIME}
  ), forgotten AS (
    DELETE FROM user_changes USING next WHERE user_changes.id = next.id)
  SELECT max(id) FROM next`

/** For how long a request waits for the feed to begin anew. */
const BEGIN_MS = 1000

const NOTE_FORGOTTEN = `
  UPDATE user_feed SET forgotten_in = $1, forgotten_id = $2
  WHERE (forgotten_in, forgotten_id) < ($1, $2)`

/** The feed in PostgreSQL. It shows a change once no older transaction that writes is running. */
export function createPostgresUserChanges(connections: Connections): UserChanges {
  let beginning: Promise<void> | undefined

  async function untilBegun(): Promise<void> {
    beginning ??= beginFeedAnew(connections).finally(() => {
      beginning = undefined
    })
    try {
      await withinPatience(BEGIN_MS, beginning)
    } catch (error) {
      throw error instanceof NoAnswer ? unavailable(error) : error
    }
  }

  const readPart: ChangeDialect['readPart'] = async (after, limit) => {
    const { phase, key, id } = after
    const rows =
      phase === 'before'
        ? await connections.query<ChangeRow>(SELECT_BASELINE, [key, id])
        : await connections.query<ChangeRow>(SELECT_CHANGES, [key, id, limit + 1])
    const [firstId, , , , text] = rows[0] as readonly unknown[]
    const { isOfThisServer, isFiltered, ...feed } = JSON.parse(String(text))
    // Users that are hidden are not deleted.
    if (isFiltered) throw unavailable(new Error('row-level security hides users from this role'))
    if (isOfThisServer === null) throw unavailable(new Error('a standby shows no changes'))
    if (isOfThisServer) return { feed, rows: firstId === null ? [] : rows }
    await untilBegun()
    return readPart(after, limit)
  }

  return createChangeStore(createPostgresSharedStatements(connections), {
    readPart,

    last: async () => {
      type LastRow = [mark: string, key: string, id: number]
      const [[mark, key, id] = ['', '0', 0]] = await connections.query<LastRow>(SELECT_LAST)
      return { mark, key, id }
    },

    key: 'changed_in',
    isSettled: `changed_in < ${OLDEST}`,
    noteForgotten: NOTE_FORGOTTEN,
  })
}

/**
 * Expires all cursors when the database comes from another server, or from before a promotion. After a restore it forgets the
 * changes first, most of them in short transactions: nobody reads them.
 */
async function beginFeedAnew(connections: Connections): Promise<void> {
  let through: number | null = 0
  while (through !== null) {
    type Row = [last: number | null]
    const [row]: Row[] = await connections.write(FORGET_NEXT, [through], { share: 'long' })
    through = row?.[0] ?? null
  }
  await connections.transaction(
    async session => {
      const [row] = await session.query<[isRestored: boolean]>(BEGIN_ANEW)
      if (row?.[0] === true) await session.query(FORGET_ALL)
    },
    { share: 'long' },
  )
}
