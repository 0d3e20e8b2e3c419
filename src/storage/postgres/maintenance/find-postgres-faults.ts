import { describeCounts, FAULTS, type Rule, SHARED_RULES, SOUND_USER } from '../../check-rules.ts'
import type { CheckReport } from '../../database-tasks.ts'
import { findMismatch, type Migration } from '../../migrations.ts'
import { UNFINISHED_COPY } from '../../unusable-database.ts'
import { isUnfinishedCopy, readHistory, requireUsable } from '../inspect-schema.ts'
import { type Connections, LONG_WORK } from '../postgres-connections.ts'
import { SERVER } from '../postgres-user-changes.ts'
import { findWordFaults } from './find-word-faults.ts'

/** In another server the feed begins anew with its first reading. */
const LATER_CHANGES = `
  SELECT count(*) FROM user_changes, user_feed
  WHERE server = ${SERVER} AND changed_in >= pg_snapshot_xmax(pg_current_snapshot())`

/** Takes some ten milliseconds. */
const CHUNK_ROWS = 20_000

const CHECK_USERS = `
  SELECT max(id),
    count(*) FILTER (WHERE NOT (id BETWEEN 1 AND 9007199254740991 AND ${SOUND_USER})),
    count(*) FILTER (WHERE name_lower <> lower(name COLLATE "C") AND name ~ '^[ -~]*$')
  FROM (SELECT * FROM users WHERE id > $1 ORDER BY id LIMIT ${CHUNK_ROWS}) AS chunk`

const RULES: readonly Rule[] = [
  {
    sql: `SELECT greatest(0, coalesce((SELECT max(id) FROM users), 0)
            - coalesce(pg_sequence_last_value('users_id_seq'::regclass), 0))`,
    fault: FAULTS.reusedIds,
  },
  ...SHARED_RULES,
  { sql: LATER_CHANGES, fault: FAULTS.laterChanges },
  {
    sql: `SELECT 1 - count(*) FROM users_words_state`,
    fault: 'row of users_words_state is missing',
  },
]

/**
 * Reads all rows of a database, also while others write to it. Each statement sees one state. Rows of an older schema may not
 * yet be as they must be.
 * Throws if it cannot be read or does not belong to this service.
 */
export async function findPostgresFaults(
  connections: Connections,
  migrations: readonly Migration[],
): Promise<CheckReport> {
  const applied = await connections.read(async session => {
    await requireUsable(session)
    return readHistory(session)
  }, LONG_WORK)
  const mismatch = findMismatch(applied, migrations)
  const pending = migrations.slice(applied.length).map(({ name }) => name)
  if (mismatch !== undefined) return { faults: [mismatch], pending }
  if (pending.length > 0) return { faults: [], pending }
  if (await connections.read(isUnfinishedCopy, LONG_WORK)) {
    return { faults: [UNFINISHED_COPY], pending }
  }
  const faults = await findRowFaults(connections)
  return { faults: faults.length > 0 ? faults : await findWordFaults(connections), pending }
}

async function findRowFaults(connections: Connections): Promise<readonly string[]> {
  const counts = { broken: 0, wrong: 0 }
  for (let last: number | null = 0; last !== null; ) {
    type ChunkRow = [last: number | null, broken: number, wrong: number]
    const [chunk] = await connections.query<ChunkRow>({ text: CHECK_USERS }, [last], LONG_WORK)
    const [end, broken, wrong] = chunk as ChunkRow
    last = end
    counts.broken += broken
    counts.wrong += wrong
  }
  const found: [count: number, fault: string][] = [
    [counts.broken, FAULTS.brokenUsers],
    [counts.wrong, FAULTS.wrongNameLower],
  ]
  for (const { sql, fault } of RULES) {
    const [[count] = [0]] = await connections.query<[number]>({ text: sql }, [], LONG_WORK)
    found.push([count, fault])
  }
  return describeCounts(found)
}
