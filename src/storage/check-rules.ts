import { MAX_ID } from '../users/stored-user.ts'
import type { CheckReport } from './database-tasks.ts'
import { GREATEST_ID, hasWrongWords, LEAST_ID, type WordDialect } from './fold-words.ts'
import { ask, type Program } from './programs.ts'
import { UnusableDatabase } from './unusable-database.ts'

/** What each engine says in its own SQL. */
export interface CheckDialect {
  /** That of `LAST_GIVEN_ID`. */
  readonly lastGivenId: string
  /** `name` with small letters for those of ASCII. */
  readonly lowerName: string
  /** Counts the changes of the feed that are later than the newest one. */
  readonly countLaterChanges: string
}

export const WRONG_WORDS =
  'the index of words differs from the users, so `q` finds too many or too few: run `migrate --reindex`'

/** How many users a statement reads, in some ten milliseconds. */
const CHUNK_ROWS = 20_000

/**
 * The constraints that every engine has: SQLite checks none while reading, PostgreSQL none that was added NOT VALID. Only names in
 * ASCII are folded: each engine folds other letters in its own way.
 */
const checkUsers = ({ lowerName }: CheckDialect) => `
  SELECT CAST(max(id) AS text),
    count(*) FILTER (WHERE NOT (length(name) BETWEEN 1 AND 255 AND length(email) BETWEEN 1 AND 254
      AND coalesce(password_digest LIKE '$%', true)
      AND length(created_at) = 24 AND length(updated_at) = 24)),
    count(*) FILTER (WHERE name_lower <> ${lowerName} AND length(name) = octet_length(name))
  FROM (SELECT * FROM users WHERE id > CAST($1 AS bigint) ORDER BY id LIMIT ${CHUNK_ROWS}) AS chunk`

const NAMED_IDS = 5

const SELECT_WRONG_IDS = `
  SELECT CAST(id AS text), count(*) OVER () FROM users WHERE id < 1 OR id > ${MAX_ID} ORDER BY id LIMIT ${NAMED_IDS}`

/** SQL that counts what must not be, by what follows the number in a message. */
const rulesOf = ({ lastGivenId, countLaterChanges }: CheckDialect) => ({
  'existing ids would be used again': `
    SELECT CASE WHEN ${GREATEST_ID} > ${lastGivenId} THEN ${GREATEST_ID} - ${lastGivenId} ELSE 0 END`,
  'is the difference between users_summary.user_count and the number of users': `
    SELECT CAST(abs((SELECT count(*) FROM users)
      - (SELECT coalesce(sum(user_count), -1) FROM users_summary)) AS bigint)`,
  'answers are stored for an Idempotency-Key whose user is deleted': `
    SELECT count(*) FROM idempotency_keys
    WHERE user_json IS NOT NULL AND NOT EXISTS (SELECT 1 FROM users WHERE id = user_id)`,
  'keys for cursors do not have 32 bytes': `
    SELECT count(*) FROM signing_keys WHERE length(key) <> 32`,
  'API keys break a constraint of their table': `
    SELECT count(*) FROM api_keys
    WHERE NOT (length(name) BETWEEN 1 AND 64 AND length(key_hash) = 32 AND scopes <> '')`,
  'row of user_feed is missing': 'SELECT 1 - count(*) FROM user_feed',
  'users are missing in the feed of changes': `
    SELECT count(*) FROM users LEFT JOIN user_changes ON user_changes.id = users.id
    WHERE deleted_at IS NOT NULL OR user_changes.id IS NULL`,
  'users of the feed of changes do not exist': `
    SELECT count(*) FROM user_changes
    WHERE deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM users WHERE users.id = user_changes.id)`,
  'changes of the feed are later than the newest one': countLaterChanges,
  'row of words_rules is missing': 'SELECT 1 - count(*) FROM words_rules',
})

/**
 * Reads all rows of a database of this release. Returns a line for each rule that they break. If they break none and `words` is
 * given, it also compares the words of each user with those that the rules make.
 */
export function* findRowFaults(dialect: CheckDialect, words?: WordDialect): Program<string[]> {
  type ChunkRow = readonly [end: string | null, broken: number, wrong: number]
  let [broken, wrong] = [0, 0]
  for (let after: string | null = LEAST_ID; after !== null; ) {
    const chunk: ChunkRow[] = yield* ask<ChunkRow>(checkUsers(dialect), [after])
    const [[end, brokenHere, wrongHere] = [null, 0, 0]] = chunk
    broken += brokenHere
    wrong += wrongHere
    after = end
  }
  const counts: Record<string, number> = {
    'users break a constraint of their table': broken,
    'users cannot be found by their name: name_lower is not the name in lower case': wrong,
  }
  for (const [fault, sql] of Object.entries(rulesOf(dialect))) {
    const [[count] = [0]] = yield* ask<[number]>(sql)
    counts[fault] = count
  }
  const faults = Object.entries(counts).flatMap(([fault, count]) =>
    count === 0 ? [] : `${count} ${fault}`,
  )
  const all = [...(yield* findWrongIds()), ...faults]
  const areWrong = all.length === 0 && words !== undefined && (yield* hasWrongWords(words))
  return areWrong ? [WRONG_WORDS] : all
}

/** Such rows come from another program, or from a damaged file. */
function* findWrongIds(): Program<readonly string[]> {
  const rows = yield* ask<[id: string, count: number]>(SELECT_WRONG_IDS)
  const [[, count] = ['', 0]] = rows
  if (count === 0) return []
  const named = rows.map(([id]) => id).join(', ')
  return [
    `${count} users have ids that are not 1 to ${MAX_ID}: ${named}${count > NAMED_IDS ? ', …' : ''}`,
  ]
}

/** Makes a report of what `check` throws: a database that its content makes unusable has that as its only fault. */
export async function reportFault(check: () => Promise<CheckReport>): Promise<CheckReport> {
  try {
    return await check()
  } catch (error) {
    if (!(error instanceof UnusableDatabase && error.isFault)) throw error
    return { faults: [error.message], pending: [] }
  }
}
