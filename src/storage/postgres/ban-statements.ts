import type { Ban, BanPage, BanQuery, BanSelection } from '../../limits/ban-store.ts'
import { fromStored, hashOfBan, toStored } from './ban-text.ts'
import type { Session } from './postgres-connections.ts'

const COLUMNS = 'rule, client_key, ends_at, lasts_ms'

/** As in the index, which has room for the first characters of a text only. */
const ORDER = 'ends_at, left(rule, 200), left(client_key, 200), key_hash'

/** Reading this many takes some milliseconds. */
export const PAGE_ROWS = 1000

const SELECT_PAGE = `
  SELECT ${COLUMNS}, key_hash FROM bans
  WHERE ends_at > $1
    AND (${ORDER}) > ($2::bigint, left($3::text, 200), left($4::text, 200), $5::bytea)
  ORDER BY ${ORDER} LIMIT ${PAGE_ROWS}`

/** In the order of the texts, which no index has: it takes 20 ms for 100,000 bans. */
const SELECT_LISTED = `
  SELECT ${COLUMNS} FROM bans
  WHERE ends_at > $1
    AND ($2::text IS NULL OR rule = $2) AND ($3::text[] IS NULL OR client_key = ANY($3))
    AND ($4::text IS NULL OR (rule, client_key) > ($4, $5::text))
  ORDER BY rule, client_key LIMIT $6`

/** For the triggers of the table, until the end of the transaction. */
const SET_WRITER = `SELECT set_config('user_records.writer', $1, true)`

/** In the order of hashes, so that two processes wait for each other in one direction only. */
const UPSERT = `
  INSERT INTO bans (key_hash, ${COLUMNS})
  SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
    AS new (key_hash, ${COLUMNS})
  ORDER BY key_hash
  ON CONFLICT (key_hash) DO UPDATE SET ends_at = EXCLUDED.ends_at, lasts_ms = EXCLUDED.lasts_ms`

/** Leaves the rows that another process is changing, and waits for nobody. */
const DELETE_ENDED = `
  DELETE FROM bans WHERE key_hash IN (
    SELECT key_hash FROM bans WHERE ends_at <= $1
    ORDER BY ends_at LIMIT ${PAGE_ROWS} FOR UPDATE SKIP LOCKED)`

/** One statement, which changes `ban_changes` at its end: while it waits for a ban, it holds nothing else. */
const DELETE_SELECTED = `
  WITH selected AS (
    SELECT key_hash FROM bans
    WHERE ($1::text IS NULL OR rule = $1) AND ($2::text[] IS NULL OR client_key = ANY($2))
    ORDER BY key_hash FOR UPDATE)
  DELETE FROM bans USING selected WHERE bans.key_hash = selected.key_hash
  RETURNING ${COLUMNS}`

/** Marks are random, so that their sum is another one after each change. */
const SELECT_CHANGES = `
  SELECT count(*) || ' ' || coalesce(sum(mark), 0) FROM ban_changes WHERE writer <> $1`

type BanRow = [rule: string, clientKey: string, endsAt: number, lastsMs: number]

/** A place in the order of all bans. */
export interface BanPosition {
  readonly ban: Ban
  readonly keyHash: Buffer
}

/** The bans that end after `now`, the first to end first, from the place behind `after`. At most `PAGE_ROWS`. */
export async function readBanPage(
  session: Session,
  now: number,
  after: BanPosition | undefined,
): Promise<{ readonly bans: Ban[]; readonly last: BanPosition | undefined }> {
  const { endsAt = 0, rule = '', clientKey = '' } = after?.ban ?? {}
  const start = [endsAt, toStored(rule), toStored(clientKey), after?.keyHash ?? Buffer.alloc(0)]
  const rows = await session.query<[...BanRow, keyHash: Buffer]>(
    { name: 'read_bans', text: SELECT_PAGE },
    [Math.floor(now), ...start],
  )
  const bans = rows.map(toBan)
  const ban = bans.at(-1)
  const keyHash = rows.at(-1)?.[4]
  return { bans, last: ban && keyHash && { ban, keyHash } }
}

/** The bans that end after `now` and match the query, ordered by rule and client. */
export async function listBanPage(
  session: Session,
  now: number,
  { rule, clientKeys, after, limit }: BanQuery,
): Promise<BanPage> {
  const rows = await session.query<BanRow>({ name: 'list_bans', text: SELECT_LISTED }, [
    Math.floor(now),
    storedOrNull(rule),
    clientKeys?.map(toStored) ?? null,
    storedOrNull(after?.rule),
    storedOrNull(after?.clientKey),
    limit + 1,
  ])
  return { bans: rows.slice(0, limit).map(toBan), hasMore: rows.length > limit }
}

/** Says who makes the changes of a transaction. */
export async function setWriter(session: Session, writer: string): Promise<void> {
  await session.query({ text: SET_WRITER }, [writer])
}

/** Saves bans of which no two have the same rule and client. Rules allow fractions of a millisecond, the table does not. */
export async function upsertBans(session: Session, bans: readonly Ban[]): Promise<void> {
  await session.query({ text: UPSERT }, [
    bans.map(hashOfBan),
    bans.map(({ rule }) => toStored(rule)),
    bans.map(({ clientKey }) => toStored(clientKey)),
    bans.map(({ endsAt }) => Math.ceil(endsAt)),
    bans.map(({ lastsMs }) => Math.ceil(lastsMs)),
  ])
}

/** Deletes some of the bans that have ended. */
export async function deleteEndedBans(session: Session, now: number): Promise<void> {
  await session.query({ text: DELETE_ENDED }, [Math.floor(now)])
}

export async function deleteBans(
  session: Session,
  { rule, clientKeys }: BanSelection,
): Promise<Ban[]> {
  const values = [storedOrNull(rule), clientKeys?.map(toStored) ?? null]
  return (await session.query<BanRow>({ text: DELETE_SELECTED }, values)).map(toBan)
}

/** Differs from its last value once another writer has changed the bans. */
export async function readChangesOfOthers(session: Session, writer: string): Promise<string> {
  const statement = { name: 'read_ban_changes', text: SELECT_CHANGES }
  const [[changes] = ['']] = await session.query<[string]>(statement, [writer])
  return changes
}

function storedOrNull(text: string | undefined): string | null {
  return text === undefined ? null : toStored(text)
}

function toBan([rule, clientKey, endsAt, lastsMs]: readonly [...BanRow, ...unknown[]]): Ban {
  return { rule: fromStored(rule), clientKey: fromStored(clientKey), endsAt, lastsMs }
}
