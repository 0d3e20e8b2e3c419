import { randomUUID } from 'node:crypto'
import type { Ban, BanStore } from '../../limits/ban-store.ts'
import { BAN_COLUMNS, type BanRow, createBanStore } from '../create-ban-store.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { banKey, fromStored, hashOfBan, toStored, utf8OfStored } from './ban-text.ts'
import { joinCalls } from './join-calls.ts'
import {
  type Connections,
  columnsOf,
  createPostgresSharedStatements,
  type Row,
  type Session,
} from './postgres-connections.ts'

/** For the triggers of the table, until the end of the transaction. */
const SET_WRITER = `SELECT set_config('user_records.writer', $1, true)`

/** In the order of hashes, so that two processes wait for each other in one direction only. */
const UPSERT = `
  INSERT INTO bans (key_hash, rule, client_key, ends_at, lasts_ms)
  SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
    AS new (key_hash, rule, client_key, ends_at, lasts_ms)
  ORDER BY key_hash
  ON CONFLICT (key_hash) DO UPDATE SET ends_at = EXCLUDED.ends_at, lasts_ms = EXCLUDED.lasts_ms
  WHERE $6::boolean OR bans.ends_at <= $7::bigint
  RETURNING key_hash`

/** Leaves the rows that another process is changing, and waits for nobody. */
const DELETE_SOME_ENDED = `
  DELETE FROM bans WHERE key_hash IN (
    SELECT key_hash FROM bans WHERE ends_at <= $1
    ORDER BY ends_at LIMIT 1000 FOR UPDATE SKIP LOCKED)`

/** One statement, which changes `ban_changes` at its end: while it waits for a ban, it holds nothing else. */
function deleteInOrder(condition: string): string {
  return `
    WITH selected AS (SELECT key_hash FROM bans WHERE ${condition} ORDER BY key_hash FOR UPDATE)
    DELETE FROM bans USING selected WHERE bans.key_hash = selected.key_hash
    RETURNING ${BAN_COLUMNS}`
}

/** Marks are random, so that their sum is another one after each change. */
const SELECT_CHANGES = `
  SELECT count(*) || ' ' || coalesce(sum(mark), 0) FROM ban_changes WHERE writer <> $1`

/** All processes obey the clock of the server. One that runs does not notice if it is set. */
const SELECT_CLOCK = `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

/** Bans in PostgreSQL. Saving a ban deletes some of those that have ended. */
export function createPostgresBanStore(
  connections: Connections,
  { steadyNow, serverNow }: Pick<OpenStorageOptions, 'steadyNow' | 'serverNow'>,
): BanStore {
  const { read } = createPostgresSharedStatements(connections)
  /** Marks the changes of this process, so that its own ones do not change its revision. */
  const writer = randomUUID()
  const setWriter = (session: Session) => session.query(SET_WRITER, [writer])

  function joinSaves(replaces: boolean) {
    return joinCalls<{ readonly ban: Ban; readonly now: number }, boolean>({
      run: async saves => {
        const bans = saves.map(({ ban }) => ban)
        const instant = Math.min(...saves.map(({ now }) => now))
        const saved = await connections.transaction(
          async session => {
            await setWriter(session)
            // Of two saves of one ban, the later one counts.
            const latest = new Map(bans.map(ban => [banKey(ban), ban]))
            const columns = columnsOf([...latest.values()].map(toRow))
            const rows = await session.query<[Buffer]>(UPSERT, [...columns, replaces, instant])
            await session.query(DELETE_SOME_ENDED, [instant])
            return new Set(rows.map(([hash]) => hash.toString('hex')))
          },
          // Another process may be lifting many.
          { lane: 'aside', countWrites: () => bans.length },
        )
        return bans.map(ban => ({ value: saved.has(hashOfBan(ban).toString('hex')) }))
      },
    })
  }

  const replace = joinSaves(true)
  const begin = joinSaves(false)

  return createBanStore({
    steadyNow,
    table: {
      read,
      save: (ban, { now, replaces }) => (replaces ? replace : begin)({ ban, now }),
      deleteWhere: (condition, values) =>
        connections.transaction(
          async session => {
            await setWriter(session)
            return session.query<[...BanRow]>(deleteInOrder(condition), values)
          },
          { lane: 'long', countWrites: () => 1 },
        ),
      revision: async () => String((await read(SELECT_CHANGES, [writer]))[0]?.[0]),
      clockOffset: async () => {
        const [[serverMs] = []] = await read<[number]>(SELECT_CLOCK)
        return (serverNow?.() ?? Number(serverMs)) - steadyNow()
      },
      toStored,
      fromStored,
      inUtf8: utf8OfStored,
    },
  })
}

function toRow(ban: Ban): Row {
  const { rule, clientKey, endsAt, lastsMs } = ban
  return [hashOfBan(ban), toStored(rule), toStored(clientKey), endsAt, lastsMs]
}
