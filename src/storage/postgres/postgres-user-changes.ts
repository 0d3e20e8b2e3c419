import type { UserChanges } from '../../users/user-changes.ts'
import { createChangeStore } from '../create-change-store.ts'
import { ask } from '../programs.ts'
import { type Connections, createPostgresSharedStatements } from './postgres-connections.ts'
import { unavailable } from './postgres-errors.ts'
import { REPRESENTATION } from './user-reads.ts'

/**
 * The server, how often a standby was promoted to be it, the database, which may be a copy that CREATE DATABASE made, and the
 * table, which `pg_restore` makes anew. A standby may have lost the last transactions, whose numbers are then given out again.
 * NULL on a standby.
 */
const SERVER = `(
  SELECT CASE WHEN NOT pg_is_in_recovery() THEN concat_ws(
    '/', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_database.oid, 'user_feed'::regclass::oid) END
  FROM pg_control_system(), pg_database WHERE datname = current_database())`

const inFeed = (end: 'xmin' | 'xmax') =>
  `base + pg_snapshot_${end}(pg_current_snapshot())::text::bigint`

/** The place in the feed of the oldest transaction that runs, and of the next one that begins. */
const [OLDEST, NEXT] = [inFeed('xmin'), inFeed('xmax')] as const

/** All changes below it are there, and stay as they are. */
const SETTLED = `CASE WHEN ${OLDEST} >= base + begun_in THEN ${OLDEST} ELSE 0 END`

/** Whether changes are later than all that any transaction can have made. In another server the feed begins anew with its first reading. */
export const COUNT_LATER_CHANGES = `
  SELECT count(*) FROM user_changes, user_feed WHERE server = ${SERVER} AND changed_in >= ${NEXT}`

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

/** The feed in PostgreSQL. It shows a change once no older transaction that writes is running. */
export function createPostgresUserChanges(connections: Connections): UserChanges {
  const statements = createPostgresSharedStatements(connections)
  return createChangeStore(statements, {
    query: (name, text, values) => connections.query({ name, text }, values),
    feed: 'user_feed',
    // NULL on a standby.
    state: `CASE WHEN row_security_active('users') THEN 'filtered' WHEN server = ${SERVER} THEN 'ready'
      WHEN server <> ${SERVER} THEN 'of another server' END`,
    mark: `CASE WHEN server <> ${SERVER} THEN '' ELSE mark END`,
    oldest: OLDEST,
    next: NEXT,
    isShown: `changed_in < (SELECT ${SETTLED} FROM user_feed)`,
    representation: REPRESENTATION,
    now: `to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
    makeReady: async state => {
      // Users that are hidden are not deleted.
      if (state === 'filtered')
        throw unavailable(new Error('row-level security hides users from this role'))
      if (state === null) throw unavailable(new Error('a standby shows no changes'))
      for (const sql of BEGIN_ANEW) await statements.transaction(() => ask(sql), { writes: 0 })
    },
  })
}
