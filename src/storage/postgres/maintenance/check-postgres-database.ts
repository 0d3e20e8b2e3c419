import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { type CheckDialect, findRowFaults, reportFault, WRONG_WORDS } from '../../check-rules.ts'
import type { CheckReport } from '../../database-tasks.ts'
import { INDEXED_THROUGH } from '../../index-next-users.ts'
import { findMismatch, migrationsFor } from '../../migrations.ts'
import { runAwaited } from '../../programs.ts'
import { UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { LAST_GIVEN_ID } from '../../user-ids.ts'
import { isUnfinishedCopy, readHistory, requireUsable } from '../inspect-schema.ts'
import { withConnections } from '../open-postgres-storage.ts'
import type { Connections } from '../postgres-connections.ts'
import { isOfState } from '../postgres-errors.ts'
import { SERVER } from '../postgres-user-changes.ts'
import { wordsText } from '../user-words.ts'
import { checkAccess } from './check-access.ts'

const DIALECT: CheckDialect = {
  lastGivenId: LAST_GIVEN_ID.postgres,
  lowerName: 'lower(name COLLATE "C")',
  // In another server the feed begins anew with its first reading.
  countLaterChanges: `
    SELECT count(*) FROM user_changes, user_feed
    WHERE server = ${SERVER} AND changed_in >= pg_snapshot_xmax(pg_current_snapshot())`,
}

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
  const migrations = migrationsFor('postgres')
  const applied = await connections.snapshot(async session => {
    await requireUsable(session)
    return readHistory(session)
  }, 'long')
  const mismatch = findMismatch(applied, migrations)
  const pending = migrations.slice(applied.length).map(({ name }) => name)
  if (mismatch !== undefined) return { faults: [mismatch], pending }
  if (pending.length > 0) return { faults: [], pending }
  if (await connections.snapshot(isUnfinishedCopy, 'long')) {
    return { faults: [UNFINISHED_COPY], pending }
  }
  const { hidesRows, faults: barriers, notes } = await checkAccess(connections)
  if (hidesRows) return { faults: barriers, pending, notes }
  const faults = await runAwaited(findRowFaults(DIALECT), (sql, values) =>
    connections.query(sql, values, 'long'),
  )
  if (faults.length === 0) faults.push(...(await findWordFaults(connections)))
  return { faults: [...barriers, ...faults], pending, notes }
}

type WordsRow = readonly [id: number, name: string, email: string, words: string | null]

/** Compares the words of all users with their names and e-mails, also while others write. Each chunk is of one state. */
async function findWordFaults(connections: Connections): Promise<readonly string[]> {
  for (let last: number | undefined = 0; last !== undefined; ) {
    const users: WordsRow[] = await connections.query(SELECT_WORDS, [last], 'long')
    if (users.some(isWrong)) return [WRONG_WORDS]
    last = users.at(-1)?.[0]
  }
  const [[orphans] = [0]] = await connections.query<[number]>(COUNT_ORPHANS, [], 'long')
  return orphans === 0 ? [] : [WRONG_WORDS]
}

function isWrong([, name, email, words]: WordsRow): boolean {
  return words !== null && sorted(words) !== sorted(wordsText({ name, email }))
}

function sorted(words: string): string {
  return words.split(' ').sort().join(' ')
}
