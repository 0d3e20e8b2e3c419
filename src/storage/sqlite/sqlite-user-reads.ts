import { ServiceError } from '../../errors.ts'
import { storedUser } from '../../users/stored-user.ts'
import type { StoredUser, UserPage, UserQuery, UserReads } from '../../users/user-repository.ts'
import { isPageOfIndex } from './list-plan.ts'
import { createLongLists } from './long-lists.ts'
import type { LongReads } from './long-reads.ts'
import type { ReadView } from './read-view.ts'
import type { Database } from './sqlite-driver.ts'
import { rememberStatements } from './sqlite-statements.ts'
import { REPRESENTATION } from './sqlite-user-rows.ts'
import {
  filterValues,
  type ListRow,
  listStatement,
  pageOf,
  SELECT_REVISION,
} from './user-list-sql.ts'
import { ARE_WORDS_INDEXED } from './word-index.ts'

export interface SqliteUserReadsOptions {
  readonly database: Database
  readonly view: ReadView
  /** The caller closes them, before the database. */
  readonly longReads: LongReads
  /** Milliseconds since the epoch that do not jump when the machine's clock is set. */
  readonly steadyNow: () => number
}

interface DigestRow {
  readonly json: string
  readonly passwordDigest: string | null
}

interface KeyRow {
  readonly fingerprint: string | null
  readonly user_json: string | null
}

const SELECT = `SELECT ${REPRESENTATION} FROM users WHERE id = ?`

const SELECT_BY_EMAIL = `
  SELECT ${REPRESENTATION} AS json, password_digest AS passwordDigest FROM users WHERE lower(email) = lower(?)`

const SELECT_DIGEST = `SELECT password_digest FROM users WHERE id = ?`

const SELECT_EMAIL_OWNER = `SELECT id FROM users WHERE lower(email) = lower(?)`

const SELECT_KEY = `
  SELECT fingerprint, user_json
  FROM idempotency_keys WHERE key_hash = ? AND expires_at > ?`

/** Lists have thousands of possible forms, but clients use only few of them. */
const MAX_PREPARED_FORMS = 200

/** Reads of the table `users` of SQLite, which run at once, but for lists that take long. */
export function createSqliteUserReads(options: SqliteUserReadsOptions): UserReads {
  const { database, view, steadyNow, longReads } = options
  const { read } = view
  const select = database.prepare<[number], string>(SELECT).pluck()
  const selectByEmail = database.prepare<[string], DigestRow>(SELECT_BY_EMAIL)
  const selectDigest = database.prepare<[number], string | null>(SELECT_DIGEST).pluck()
  const selectEmailOwner = database.prepare<[string], number>(SELECT_EMAIL_OWNER).pluck()
  const selectRevision = database.prepare<[], string>(SELECT_REVISION).pluck()
  const selectKey = database.prepare<[Buffer, number], KeyRow>(SELECT_KEY)
  const prepared = rememberStatements(database, MAX_PREPARED_FORMS)
  const areWordsIndexed = database.prepare<[], 0 | 1>(ARE_WORDS_INDEXED).pluck()
  const longLists = createLongLists(longReads)

  /** A list that reads few users takes less than a millisecond. */
  async function list(query: UserQuery): Promise<UserPage> {
    if (isPageOfIndex(query)) return read(() => listAtOnce(query))
    if (query.words.length > 0 && (await read(() => areWordsIndexed.get())) !== 1) {
      throw new ServiceError('words_unavailable')
    }
    return longLists.page(query)
  }

  function listAtOnce(query: UserQuery): UserPage {
    const { filters, limit, start } = query
    const { form, sql } = listStatement(query, { isLong: false })
    const values = { ...filterValues(filters), limit, offset: 0, ...start }
    return pageOf(prepared(form, sql).raw().get(values) as ListRow, query)
  }

  return {
    findIdempotentCreate: keyHash =>
      read(() => {
        const row = selectKey.get(keyHash, steadyNow())
        if (row === undefined) return undefined
        const { fingerprint, user_json: json } = row
        if (fingerprint === null || json === null) return 'user_deleted'
        return { fingerprint, user: storedUser(json) }
      }),

    find: id => read(() => foundUser(select.get(id))),

    findByEmail: email =>
      read(() => {
        const row = selectByEmail.get(email)
        return row && { user: storedUser(row.json), passwordDigest: row.passwordDigest }
      }),

    findDigests: ids =>
      read(() => {
        const digests = new Map<number, string | null>()
        for (const id of ids) {
          const digest = selectDigest.get(id)
          if (digest !== undefined) digests.set(id, digest)
        }
        return digests
      }),

    isEmailTaken: (email, exceptId) =>
      read(() => {
        const owner = selectEmailOwner.get(email)
        return owner !== undefined && owner !== exceptId
      }),

    list,

    walk: longLists.walk,

    revision: () => read(() => selectRevision.get() as string),

    ping: async () => {
      await read(() => select.get(1))
    },
  }
}

function foundUser(json: string | undefined): StoredUser | undefined {
  return json === undefined ? undefined : storedUser(json)
}
