import { ServiceError } from '../../errors.ts'
import { MAX_ID } from '../../users/stored-user.ts'
import type { ChangePage, ChangePosition, UserChanges } from '../../users/user-changes.ts'
import { NoAnswer, withinPatience } from '../../waiting/patience.ts'
import {
  BASELINE_ROWS,
  BEGINNING,
  baselinePageOf,
  type ChangeRow,
  changePageOf,
  DELETIONS_A_TIME,
} from '../change-pages.ts'
import type { Connections, Statement } from './postgres-connections.ts'
import { unavailable } from './postgres-errors.ts'
import { REPRESENTATION } from './user-reads.ts'

/** The numbers of transactions as text: they have 64 bits. */
type FeedRow = readonly [
  mark: string,
  baseline: number,
  forgottenIn: string,
  forgottenId: number,
  isOfThisServer: boolean | null,
  oldest: string,
  newest: string,
  id: number | null,
  key: string,
  json: string | null,
  deletedAt: string | null,
]

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

const FEED_COLUMNS = `
  mark, baseline_through, forgotten_in::text, forgotten_id, server = ${SERVER},
  ${OLDEST}::text, pg_snapshot_xmax(pg_current_snapshot())::text`

/** Users with a change come later, with that. */
const SELECT_BASELINE: Statement = {
  name: 'read_users_before_feed',
  text: `
    SELECT ${FEED_COLUMNS}, found.*, NULL FROM user_feed LEFT JOIN LATERAL (
      SELECT users.id, updated_at, CASE WHEN NOT EXISTS (
        SELECT FROM user_changes WHERE user_changes.id = users.id) THEN ${REPRESENTATION} END
      FROM users WHERE (updated_at, users.id) > ($1, $2) ORDER BY updated_at, users.id LIMIT ${BASELINE_ROWS}
    ) AS found ON true`,
}

/** In one statement, so that all of it is of one moment. A bare `changed_in` in ORDER BY would be the text, which sorts 1000 before 999. */
const SELECT_CHANGES: Statement = {
  name: 'read_changes',
  text: `
    SELECT ${FEED_COLUMNS}, found.* FROM user_feed LEFT JOIN LATERAL (
      SELECT user_changes.id, changed_in::text, CASE WHEN deleted_at IS NULL THEN ${REPRESENTATION} END, deleted_at
      FROM user_changes LEFT JOIN users ON users.id = user_changes.id
      WHERE (changed_in, user_changes.id) > ($1::xid8, $2) AND changed_in < ${OLDEST}
      ORDER BY user_changes.changed_in, user_changes.id LIMIT $3
    ) AS found ON true`,
}

const SELECT_LAST: Statement = {
  name: 'read_last_change',
  text: `
    SELECT CASE WHEN server <> ${SERVER} THEN '' ELSE mark END, changed_in::text, id FROM user_feed LEFT JOIN (
      SELECT changed_in, id FROM user_changes WHERE changed_in < ${OLDEST}
      ORDER BY changed_in DESC, id DESC LIMIT 1) AS newest ON true`,
}

const NEW_MARK = `md5(random()::text || clock_timestamp()::text)`

/** For a database that was put back: a follower may have read changes that it does not have. */
export const EXPIRE_CURSORS = `UPDATE user_feed SET mark = ${NEW_MARK}`

/** For a database that has just been filled: nobody has read its feed. */
export const BEGIN_FEED = `
  UPDATE user_feed SET mark = ${NEW_MARK}, server = ${SERVER}, baseline_through = 0, forgotten_in = '0', forgotten_id = 0`

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

/**
 * Those at the end that are dated after the time $2 get it. Earlier ones go with the next deletion whose date has come, once that is
 * older than $1. Only what every transaction sees: a number that is still hidden may be lower than one that is forgotten.
 */
const FORGET: Statement = {
  name: 'forget_deletions',
  text: `
    WITH last AS (
      SELECT changed_in, id FROM user_changes WHERE deleted_at <= $2 ORDER BY changed_in DESC, id DESC LIMIT 1
    ), dated_back AS (
      UPDATE user_changes SET deleted_at = $2 WHERE deleted_at IS NOT NULL
      AND (changed_in, id) > (coalesce((SELECT changed_in FROM last), '0'), coalesce((SELECT id FROM last), 0))
    ), old AS (
      SELECT changed_in, id FROM (
        SELECT changed_in, id, deleted_at, max(deleted_at) OVER (ORDER BY changed_in, id) AS latest
        FROM (
          SELECT changed_in, id, deleted_at FROM user_changes
          WHERE deleted_at <= $2 AND changed_in < ${OLDEST}
          ORDER BY changed_in, id LIMIT ${DELETIONS_A_TIME}) AS first) AS first
      WHERE latest < $1
    ), newest AS (SELECT changed_in, id FROM old ORDER BY changed_in DESC, id DESC LIMIT 1
    ), noted AS (
      UPDATE user_feed SET forgotten_in = changed_in, forgotten_id = id FROM newest
      WHERE (changed_in, id) > (forgotten_in, forgotten_id)
    ), forgotten AS (
      DELETE FROM user_changes USING newest WHERE deleted_at IS NOT NULL
      AND (user_changes.changed_in, user_changes.id) <= (newest.changed_in, newest.id))
    SELECT count(*) FROM old`,
}

const COUNT_DELETIONS = `SELECT count(*) FROM user_changes WHERE deleted_at IS NOT NULL`

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

  async function readOnce(after: ChangePosition | undefined, limit: number) {
    // Whether there are users from before the feed is only known with the first page.
    const isBefore = after === undefined || after.phase === 'before'
    const rows = isBefore
      ? await connections.query<FeedRow>(SELECT_BASELINE, [after?.key ?? '', after?.id ?? 0])
      : await connections.query<FeedRow>(SELECT_CHANGES, [after.key, after.id, limit + 1])
    const found = rows.flatMap(([, , , , , , , id, key, json, deletedAt]): ChangeRow[] =>
      id === null ? [] : [[id, key, json, deletedAt]],
    )
    return { feed: rows[0] as FeedRow, found, isBefore }
  }

  async function read(after: ChangePosition | undefined, limit: number): Promise<ChangePage> {
    const { feed, found, isBefore } = await readOnce(after, limit)
    const [mark, baseline, forgottenIn, forgottenId, isOfThisServer, oldest] = feed
    if (isOfThisServer === null) throw unavailable(new Error('a standby shows no changes'))
    if (!isOfThisServer) {
      await untilBegun()
      return read(after, limit)
    }
    if (after !== undefined && isExpired(feed, after)) throw new ServiceError('cursor_expired')
    const from = after ?? { mark, phase: 'before', key: '', id: 0, since: oldest }
    if (!isBefore) {
      return changePageOf(found, from, limit, { key: forgottenIn, id: forgottenId })
    }
    if (after === undefined && baseline === 0) return read({ ...from, ...BEGINNING }, limit)
    return baselinePageOf(found, from, limit)
  }

  return {
    read,

    last: async () => {
      type LastRow = [mark: string, key: string | null, id: number | null]
      const [[mark, key, id] = ['', null, null]] = await connections.query<LastRow>(SELECT_LAST)
      return { mark, phase: 'changes', key: key ?? '0', id: id ?? 0, since: '0' }
    },

    forgetDeletions: async ({ before, now }) => {
      const times = [before, now].map(ms => new Date(ms).toISOString())
      const [row] = await connections.write<[count: number]>(FORGET, times)
      return row?.[0] === DELETIONS_A_TIME
    },

    countDeletions: async () => {
      const [[count] = [0]] = await connections.query<[number]>(COUNT_DELETIONS, [], 'long')
      return count
    },
  }
}

/**
 * Expires all cursors when the database comes from another server, or from before a promotion. After a restore it forgets the
 * changes first, most of them in short transactions: nobody reads them.
 */
async function beginFeedAnew(connections: Connections): Promise<void> {
  let through: number | null = 0
  while (through !== null) {
    type Row = [last: number | null]
    const [row]: Row[] = await connections.write(FORGET_NEXT, [through], { lane: 'long' })
    through = row?.[0] ?? null
  }
  await connections.transaction(
    async session => {
      const [row] = await session.query<[isRestored: boolean]>(BEGIN_ANEW)
      if (row?.[0] === true) await session.query(FORGET_ALL)
    },
    { lane: 'long' },
  )
}

/** Whether a position is of another feed, before a forgotten deletion that its reader needs, or beyond the last change. */
function isExpired(feed: FeedRow, { mark, phase, key, id, since }: ChangePosition): boolean {
  const [feedMark, , forgottenIn, forgottenId, , , newest] = feed
  if (mark !== feedMark) return true
  const read = phase === 'before' ? 0n : BigInt(key)
  const began = BigInt(since)
  const forgotten = BigInt(forgottenIn)
  if (read >= BigInt(newest) || began > BigInt(newest)) return true
  const hasRead = read > forgotten || (read === forgotten && id >= forgottenId)
  return !hasRead && began <= forgotten
}
