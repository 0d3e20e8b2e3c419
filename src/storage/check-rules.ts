import type { CheckReport } from './database-tasks.ts'
import { UnusableDatabase } from './unusable-database.ts'

/** What must not be in the tables of this release. */
export interface Rule {
  /** Selects how many there are. */
  readonly sql: string
  /** What there is too much of: follows the number in a message. */
  readonly fault: string
}

/** The constraints of `users` that every engine has: SQLite checks none while reading, PostgreSQL none that was added NOT VALID. */
export const SOUND_USER = `
  length(name) BETWEEN 1 AND 255 AND length(email) BETWEEN 1 AND 254
  AND coalesce(password_digest LIKE '$%', true)
  AND length(created_at) = 24 AND length(updated_at) = 24`

/** The text of each fault. */
export const FAULTS = {
  brokenUsers: 'users break a constraint of their table',
  reusedIds: 'existing ids would be used again',
  /** Looked for in ASCII names only: each engine folds other letters in its own way. */
  wrongNameLower: 'users cannot be found by their name: name_lower is not the name in lower case',
  wrongWords:
    'the index of words differs from the users, so `q` finds too many or too few: run `migrate --reindex`',
  laterChanges: 'changes of the feed are later than the newest one',
} as const

/** Rules that are the same SQL for every engine. */
export const SHARED_RULES: readonly Rule[] = [
  {
    sql: `SELECT CAST(abs((SELECT count(*) FROM users)
            - (SELECT coalesce(sum(user_count), -1) FROM users_summary)) AS bigint)`,
    fault: 'is the difference between users_summary.user_count and the number of users',
  },
  {
    sql: `SELECT count(*) FROM idempotency_keys
          WHERE user_json IS NOT NULL AND NOT EXISTS (SELECT 1 FROM users WHERE id = user_id)`,
    fault: 'answers are stored for an Idempotency-Key whose user is deleted',
  },
  {
    sql: `SELECT count(*) FROM signing_keys WHERE length(key) <> 32`,
    fault: 'keys for cursors do not have 32 bytes',
  },
  {
    sql: `SELECT count(*) FROM api_keys WHERE NOT (
            length(name) BETWEEN 1 AND 64 AND length(key_hash) = 32 AND scopes <> '')`,
    fault: 'API keys break a constraint of their table',
  },
  { sql: 'SELECT 1 - count(*) FROM user_feed', fault: 'row of user_feed is missing' },
  {
    sql: `SELECT count(*) FROM users LEFT JOIN user_changes ON user_changes.id = users.id
          WHERE deleted_at IS NOT NULL
            OR user_changes.id IS NULL AND users.id > (SELECT baseline_through FROM user_feed)`,
    fault: 'users are missing in the feed of changes',
  },
  {
    sql: `SELECT count(*) FROM user_changes
          WHERE deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM users WHERE users.id = user_changes.id)`,
    fault: 'users of the feed of changes do not exist',
  },
]

/** A line for each count that is not 0. */
export function describeCounts(
  counts: readonly (readonly [count: number, fault: string])[],
): readonly string[] {
  return counts.filter(([count]) => count !== 0).map(([count, fault]) => `${count} ${fault}`)
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
