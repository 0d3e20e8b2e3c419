import type { PostgresLocation } from '../../../config/postgres-url.ts'
import {
  describeCounts,
  FAULTS,
  type Rule,
  reportFault,
  SHARED_RULES,
  SOUND_USER,
} from '../../check-rules.ts'
import type { CheckReport } from '../../database-tasks.ts'
import { INDEXED_THROUGH } from '../../index-next-users.ts'
import { findMismatch } from '../../migrations.ts'
import { UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { isUnfinishedCopy, readHistory, requireUsable } from '../inspect-schema.ts'
import { withConnections } from '../open-postgres-storage.ts'
import type { Connections } from '../postgres-connections.ts'
import { isOfState } from '../postgres-errors.ts'
import { postgresMigrations } from '../postgres-migrator.ts'
import { SERVER } from '../postgres-user-changes.ts'
import { wordsText } from '../user-words.ts'

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

/** The words of these users are made in some ten milliseconds, which holds up nothing else: the command only checks. */
const WORDS_CHUNK_ROWS = 5000

/** Users that are still to be indexed have no words to compare. */
const SELECT_WORDS = `
  SELECT chunk.id, name, email,
    CASE WHEN chunk.id <= (${INDEXED_THROUGH})
        AND NOT EXISTS (SELECT FROM users_without_words WHERE users_without_words.id = chunk.id)
      THEN coalesce(array_to_string(tsvector_to_array(words), ' '), '') END
  FROM (SELECT id, name, email FROM users WHERE id > $1 ORDER BY id LIMIT ${WORDS_CHUNK_ROWS}) AS chunk
    LEFT JOIN users_words ON users_words.id = chunk.id
  ORDER BY chunk.id`

const COUNT_ORPHANS = `
  SELECT count(*) FROM users_words WHERE NOT EXISTS (SELECT FROM users WHERE users.id = users_words.id)`

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

/** SQLSTATEs for a column and for a table or a sequence. */
const MISSING = ['42703', '42P01']

/**
 * Reads all rows of a database, also while others write to it. Each statement sees one state. Rows of an older schema may not
 * yet be as they must be. A database that cannot be used because of its content has that as its only fault.
 */
export function checkPostgresDatabase(location: PostgresLocation): Promise<CheckReport> {
  return reportFault(async () => {
    try {
      return await withConnections(location, findFaults)
    } catch (error) {
      if (!isOfState(error, MISSING)) throw error
      const { message } = error as Error
      const why = `it lacks what the migrations make: ${message}`
      throw new UnusableDatabase(why, { isFault: true, cause: error })
    }
  })
}

async function findFaults(connections: Connections): Promise<CheckReport> {
  const migrations = postgresMigrations()
  const applied = await connections.read(async session => {
    await requireUsable(session)
    return readHistory(session)
  }, 'long')
  const mismatch = findMismatch(applied, migrations)
  const pending = migrations.slice(applied.length).map(({ name }) => name)
  if (mismatch !== undefined) return { faults: [mismatch], pending }
  if (pending.length > 0) return { faults: [], pending }
  if (await connections.read(isUnfinishedCopy, 'long')) {
    return { faults: [UNFINISHED_COPY], pending }
  }
  const faults = await findRowFaults(connections)
  return { faults: faults.length > 0 ? faults : await findWordFaults(connections), pending }
}

async function findRowFaults(connections: Connections): Promise<readonly string[]> {
  const counts = { broken: 0, wrong: 0 }
  for (let last: number | null = 0; last !== null; ) {
    type ChunkRow = [last: number | null, broken: number, wrong: number]
    const [chunk] = await connections.query<ChunkRow>(CHECK_USERS, [last], 'long')
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
    const [[count] = [0]] = await connections.query<[number]>(sql, [], 'long')
    found.push([count, fault])
  }
  return describeCounts(found)
}

type WordsRow = readonly [id: number, name: string, email: string, words: string | null]

/** Compares the words of all users with their names and e-mails, also while others write. Each chunk is of one state. */
async function findWordFaults(connections: Connections): Promise<readonly string[]> {
  for (let last: number | undefined = 0; last !== undefined; ) {
    const users: WordsRow[] = await connections.query(SELECT_WORDS, [last], 'long')
    if (users.some(isWrong)) return [FAULTS.wrongWords]
    last = users.at(-1)?.[0]
  }
  const [[orphans] = [0]] = await connections.query<[number]>(COUNT_ORPHANS, [], 'long')
  return orphans === 0 ? [] : [FAULTS.wrongWords]
}

function isWrong([, name, email, words]: WordsRow): boolean {
  return words !== null && sorted(words) !== sorted(wordsText({ name, email }))
}

function sorted(words: string): string {
  return words.split(' ').sort().join(' ')
}
