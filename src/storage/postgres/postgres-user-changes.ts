import type { UserChanges } from '../../users/user-changes.ts'
import { type ChangeDialect, type ChangeRow, createChangeStore } from '../create-change-store.ts'
import { ask } from '../programs.ts'
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

/** The place in the feed of the oldest transaction that runs, and of the next one that begins. */
const [OLDEST, NEXT] = ['xmin', 'xmax'].map(
  end => `base + pg_snapshot_${end}(pg_current_snapshot())::text::bigint`,
)

/** All changes below it are there, and stay as they are. */
const SETTLED = `CASE WHEN ${OLDEST} >= base + begun_in THEN ${OLDEST} ELSE 0 END`

/** Whether changes are later than all that any transaction can have made. In another server the feed begins anew with its first reading. */
export const COUNT_LATER_CHANGES = `
  SELECT count(*) FROM user_changes, user_feed WHERE server = ${SERVER} AND changed_in >= ${NEXT}`

/** The feed of a part as JSON, made once for all rows. Its places are text: they have 64 bits. */
const FEED = `(
  SELECT ${SETTLED} AS settled, json_build_object(
    'mark', mark, 'isOfThisServer', server = ${SERVER}, 'isFiltered', row_security_active('users'),
    'forgotten', json_build_object('key', forgotten_in::text, 'id', forgotten_id),
    'seenBefore', (${OLDEST})::text, 'end', (${NEXT})::text)::text AS feed
  FROM user_feed OFFSET 0) AS user_feed`

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
      WHERE (changed_in, user_changes.id) > ($1, $2) AND changed_in < settled
      ORDER BY user_changes.changed_in, user_changes.id LIMIT $3
    ) AS found ON true`,
}

const SELECT_LAST: Statement = {
  name: 'read_last_change',
  text: `
    SELECT CASE WHEN server <> ${SERVER} THEN '' ELSE mark END, coalesce(changed_in::text, '0'), coalesce(id, 0)
    FROM user_feed LEFT JOIN LATERAL (
      SELECT changed_in, id FROM user_changes WHERE changed_in < ${SETTLED}
      ORDER BY changed_in DESC, id DESC LIMIT 1) AS newest ON true`,
}

const NEW_MARK = `md5(random()::text || clock_timestamp()::text)`

/** For a database that was put back: a follower may have read changes that it does not have. */
export const EXPIRE_CURSORS = `UPDATE user_feed SET mark = ${NEW_MARK}`

/**
 * Another server, or the same one after a promotion, whose feed may have a lost future. The first statement lets places go on after the
 * greatest one, and the second one, for which it must be committed, expires all cursors. A transaction that may not know the new
 * `base` has a number below `begun_in`.
 */
const BEGIN_ANEW = [
  `UPDATE user_feed SET server = 'next ' || ${SERVER},
     base = greatest(base, (SELECT max(changed_in) FROM user_changes))
   WHERE server NOT IN (${SERVER}, 'next ' || ${SERVER})`,
  `UPDATE user_feed SET server = ${SERVER}, mark = ${NEW_MARK}, forgotten_in = 0, forgotten_id = 0,
     begun_in = pg_snapshot_xmax(pg_current_snapshot())::text::bigint
   WHERE server = 'next ' || ${SERVER}`,
]

const NOTE_FORGOTTEN = `
  UPDATE user_feed SET forgotten_in = $1, forgotten_id = $2
  WHERE (forgotten_in, forgotten_id) < ($1, $2)`

/** The feed in PostgreSQL. It shows a change once no older transaction that writes is running. */
export function createPostgresUserChanges(connections: Connections): UserChanges {
  const statements = createPostgresSharedStatements(connections)

  const readPart: ChangeDialect['readPart'] = async ({ key, id }, limit) => {
    const rows = await connections.query<ChangeRow>(SELECT_CHANGES, [key, id, limit + 1])
    const [firstId, , , , text] = rows[0] as readonly unknown[]
    const { isOfThisServer, isFiltered, ...feed } = JSON.parse(String(text))
    // Users that are hidden are not deleted.
    if (isFiltered) throw unavailable(new Error('row-level security hides users from this role'))
    if (isOfThisServer === null) throw unavailable(new Error('a standby shows no changes'))
    if (isOfThisServer) return { feed, rows: firstId === null ? [] : rows }
    for (const sql of BEGIN_ANEW) await statements.transaction(() => ask(sql), { writes: 0 })
    return readPart({ key, id }, limit)
  }

  return createChangeStore(statements, {
    readPart,

    last: async () => {
      type LastRow = [mark: string, key: string, id: number]
      const [[mark, key, id] = ['', '0', 0]] = await connections.query<LastRow>(SELECT_LAST)
      return { mark, key, id }
    },

    key: 'changed_in',
    isSettled: `changed_in < (SELECT ${SETTLED} FROM user_feed)`,
    noteForgotten: NOTE_FORGOTTEN,
  })
}
