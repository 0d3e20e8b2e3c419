import { idempotentCreateOf, MAX_ID, storedUser } from '../../users/stored-user.ts'
import type { UserChanges } from '../../users/user-changes.ts'
import type { UserReads, UserWithDigest } from '../../users/user-repository.ts'
import { emailKey } from '../../users/user-schemas.ts'
import { createChangeStore } from '../create-change-store.ts'
import type { Database } from './sqlite-driver.ts'
import type { SqliteParts } from './sqlite-statements.ts'

/** A user as clients see it. It must not contain the password digest. */
export const REPRESENTATION = `json_object(
  'id', id, 'name', name, 'email', email, 'created_at', created_at, 'updated_at', updated_at)`

/** SQL for whether a user has an id of the service. A file may hold others. The plus keeps SQLite from reading in the order of ids. */
export const HAS_ID = `+id BETWEEN 1 AND ${MAX_ID}`

/** SQL for the revision of the users. */
export const SELECT_REVISION = `
  SELECT lists_id || '-' || revision FROM users_summary WHERE singleton = 1`

const SELECT = `SELECT ${REPRESENTATION} FROM users WHERE id = ?`

const SELECT_WITH_DIGEST = `SELECT ${REPRESENTATION}, password_digest FROM users`

type DigestRow = [json: string, passwordDigest: string | null]

const SELECT_EMAIL_OWNER = `SELECT id FROM users WHERE lower(email) = ?`

/** REPLACE runs no trigger that deletes the answer of the user that it deletes. */
const SELECT_KEY = `
  SELECT CASE WHEN EXISTS (SELECT 1 FROM users WHERE users.id = user_id) THEN fingerprint END, user_json
  FROM idempotency_keys WHERE key_hash = ? AND expires_at > ?`

/** Reads of the table `users` of SQLite that take less than a millisecond. They run at once. */
export function createSqliteUserReads(
  parts: Pick<SqliteParts, 'database' | 'view' | 'steadyNow'>,
): Omit<UserReads, 'list' | 'scan'> {
  const { database, view, steadyNow } = parts
  const { read } = view
  const select = database.prepare<[number], string>(SELECT).pluck()
  const selectByEmail = database
    .prepare<[string], DigestRow>(`${SELECT_WITH_DIGEST} WHERE lower(email) = ?`)
    .raw()
  const selectWithDigest = database
    .prepare<[number], DigestRow>(`${SELECT_WITH_DIGEST} WHERE id = ?`)
    .raw()
  const selectEmailOwner = database.prepare<[string], number>(SELECT_EMAIL_OWNER).pluck()
  const selectRevision = database.prepare<[], string>(SELECT_REVISION).pluck()
  const selectKey = database
    .prepare<[Buffer, number], [fingerprint: string | null, json: string | null]>(SELECT_KEY)
    .raw()

  return {
    findIdempotentCreate: keyHash =>
      read(() => {
        const row = selectKey.get(keyHash, steadyNow())
        return row && idempotentCreateOf(...row)
      }),

    find: id =>
      read(() => {
        const json = select.get(id)
        return json === undefined ? undefined : storedUser(json)
      }),

    findByEmail: email => read(() => withDigest(selectByEmail.get(emailKey(email)))),

    findWithDigest: id => read(() => withDigest(selectWithDigest.get(id))),

    isEmailTaken: (email, exceptId) =>
      read(() => {
        const owner = selectEmailOwner.get(emailKey(email))
        return owner !== undefined && owner !== exceptId
      }),

    revision: () => read(() => selectRevision.get() as string),

    ping: async () => {
      await read(() => select.get(1))
    },
  }
}

function withDigest(row: DigestRow | undefined): UserWithDigest | undefined {
  return row && { user: storedUser(row[0]), passwordDigest: row[1] }
}

/** The feed in SQLite: each page shows one moment of the database. */
export function createSqliteUserChanges({
  view,
  statements,
}: Pick<SqliteParts, 'view' | 'statements'>): UserChanges {
  return createChangeStore(statements, {
    query: (_, sql, values) => view.read(() => statements.run(sql, values)),
    feed: 'user_feed CROSS JOIN users_summary',
    state: `'ready'`,
    mark: 'mark',
    oldest: 'revision + 1',
    next: 'revision + 1',
    isShown: HAS_ID,
    representation: REPRESENTATION,
    now: `strftime('%Y-%m-%dT%H:%M:%fZ', 'now')`,
    makeReady: async () => {},
  })
}

/**
 * Call it for a database that was put back: clients may know changes and lists that it does not have, and its revisions come again.
 * Cursors of the feed and entity tags of lists expire.
 */
export function expireReads(database: Database): void {
  database.exec(`
    UPDATE user_feed SET mark = lower(hex(randomblob(8)));
    UPDATE users_summary SET lists_id = lower(hex(randomblob(6)))`)
}
