import type { CheckReport } from '../../database-tasks.ts'
import { checkHistory, type Migration, MigrationMismatch } from '../../migrations.ts'
import { UNFINISHED_COPY } from '../../unusable-database.ts'
import { readHistory, requireUsable } from '../inspect-schema.ts'
import type { Connections, Statement } from '../postgres-connections.ts'
import { isUnfinishedCopy } from '../postgres-copy-mark.ts'
import { findWordFaults } from './find-word-faults.ts'

const LONG = { lane: 'long' } as const

/** The migration that lets a database be an unfinished copy. */
const COPIES_SINCE = 6

/** The migration that makes the index of words. */
const WORDS_SINCE = 9

const MAX_FAULTS = 100

/** Takes some ten milliseconds. */
const CHUNK_ROWS = 20_000

/** The constraints of the table, which hold for new rows only if they were added NOT VALID, and a rule without one. */
const CHECK_USERS = `
  SELECT max(id),
    count(*) FILTER (WHERE NOT (
      id BETWEEN 1 AND 9007199254740991
      AND length(name) BETWEEN 1 AND 255 AND length(email) BETWEEN 1 AND 254
      AND coalesce(password_digest LIKE '$%', true)
      AND length(created_at) = 24 AND length(updated_at) = 24)),
    count(*) FILTER (WHERE name_lower <> lower(name COLLATE "C") AND name ~ '^[ -~]*$')
  FROM (SELECT * FROM users WHERE id > $1 ORDER BY id LIMIT ${CHUNK_ROWS}) AS chunk`

const BROKEN_CONSTRAINT = 'users break a constraint of their table'

/** Only for ASCII names: a database folds other letters in its own way. */
const WRONG_NAME_LOWER =
  'users cannot be found by their name: name_lower is not the name in lower case'

/** Each query counts what must not be there, from the migration `since` on. */
const RULES = [
  {
    since: 1,
    sql: `SELECT greatest(0, coalesce((SELECT max(id) FROM users), 0)
            - coalesce(pg_sequence_last_value('users_id_seq'::regclass), 0))`,
    fault: 'existing ids would be used again',
  },
  {
    since: 1,
    sql: `SELECT abs((SELECT count(*) FROM users)
            - (SELECT coalesce(sum(user_count), -1) FROM users_summary))::bigint`,
    fault: 'is the difference between users_summary.user_count and the number of users',
  },
  {
    since: 2,
    sql: `SELECT count(*) FROM idempotency_keys
          WHERE user_json IS NOT NULL AND NOT EXISTS (SELECT FROM users WHERE id = user_id)`,
    fault: 'answers are stored for an Idempotency-Key whose user is deleted',
  },
  {
    since: 4,
    sql: `SELECT count(*) FROM signing_keys WHERE length(key) <> 32`,
    fault: 'keys for cursors do not have 32 bytes',
  },
  {
    since: 7,
    sql: `SELECT count(*) FROM api_keys WHERE NOT (
            length(name) BETWEEN 1 AND 64 AND length(key_hash) = 32 AND scopes <> '')`,
    fault: 'API keys break a constraint of their table',
  },
  {
    since: WORDS_SINCE,
    sql: `SELECT 1 - count(*) FROM users_words_state`,
    fault: 'row of users_words_state is missing',
  },
]

/**
 * Reads all rows of a database, also while others write to it. Each statement sees one state.
 * Throws if it cannot be read or does not belong to this service.
 */
export async function findPostgresFaults(
  connections: Connections,
  migrations: readonly Migration[],
): Promise<CheckReport> {
  const applied = await connections.read(async session => {
    await requireUsable(session)
    return readHistory(session)
  }, LONG)
  const faults: string[] = []

  /** Later steps mean nothing once an earlier one has found faults. */
  async function step(find: () => Promise<readonly string[]>): Promise<void> {
    if (faults.length === 0) faults.push(...(await find()))
  }

  await step(async () => mismatchOf(applied, migrations))
  if (applied.length >= COPIES_SINCE) await step(() => findUnfinishedCopy(connections))
  await step(() => findRowFaults(connections, applied.length))
  if (applied.length >= WORDS_SINCE) await step(() => findWordFaults(connections))
  return {
    faults: faults.slice(0, MAX_FAULTS),
    pending: migrations.slice(applied.length).map(({ name }) => name),
  }
}

function mismatchOf(...history: Parameters<typeof checkHistory>): string[] {
  try {
    checkHistory(...history)
    return []
  } catch (error) {
    if (error instanceof MigrationMismatch) return [error.message]
    throw error
  }
}

async function findUnfinishedCopy(connections: Connections): Promise<string[]> {
  return (await connections.read(isUnfinishedCopy, LONG)) ? [UNFINISHED_COPY] : []
}

async function findRowFaults(
  connections: Connections,
  version: number,
): Promise<readonly string[]> {
  const found: [count: number, fault: string][] = []
  const counts = { broken: 0, wrong: 0 }
  for (let last: number | null = 0; version > 0 && last !== null; ) {
    type ChunkRow = [last: number | null, broken: number, wrong: number]
    const [chunk] = await query<ChunkRow>(connections, { text: CHECK_USERS }, [last])
    const [end, broken, wrong] = chunk as ChunkRow
    last = end
    counts.broken += broken
    counts.wrong += wrong
  }
  found.push([counts.broken, BROKEN_CONSTRAINT], [counts.wrong, WRONG_NAME_LOWER])
  for (const { sql, fault } of RULES.filter(({ since }) => since <= version)) {
    const [[count] = [0]] = await query<[number]>(connections, { text: sql })
    found.push([count, fault])
  }
  return found.filter(([count]) => count !== 0).map(([count, fault]) => `${count} ${fault}`)
}

function query<R extends readonly unknown[]>(
  connections: Connections,
  statement: Statement,
  values: readonly unknown[] = [],
): Promise<R[]> {
  return connections.read(session => session.query<R>(statement, values), LONG)
}
