import { ServiceError } from '../../errors.ts'
import { requireExactId } from '../../users/used-up.ts'
import { foldCase } from '../../users/user.ts'
import { lastIdOf, storedUser, withoutLastUser } from '../../users/user-json.ts'
import {
  IDEMPOTENCY_TTL_MS,
  type IdempotencyClaim,
  type Position,
  type StoredUser,
  type UserPage,
  type UserQuery,
  type UserRepository,
  type UserSort,
} from '../../users/user-repository.ts'
import type { ReadView } from './read-view.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError, violates } from './sqlite-errors.ts'
import { findEach, rememberStatements } from './sqlite-statements.ts'
import { createUserUpdate, DIGEST_CHANGED, expectedVersion } from './sqlite-user-update.ts'
import {
  type IndexName,
  type ListRow,
  listStatement,
  matchesSql,
  rangeIndex,
  SELECT_REVISION,
  sortKeySql,
} from './user-list-sql.ts'
import { REPRESENTATION } from './user-representation.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteUserRepositoryOptions {
  readonly database: Database
  readonly writes: WriteQueue
  readonly view: ReadView
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds since the epoch that do not jump when the machine's clock is set. */
  readonly steadyNow?: () => number
}

interface KeyRow {
  readonly user_id: number
  readonly fingerprint: string | null
  readonly user_version: string | null
  readonly user_json: string | null
}

const INSERT = `
  INSERT INTO users (name, name_lower, email, password_digest, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?)
  RETURNING ${REPRESENTATION}`

const SELECT = `SELECT ${REPRESENTATION} FROM users WHERE id = ?`

const SELECT_DIGEST = `SELECT password_digest FROM users WHERE id = ?`

const SELECT_EMAIL_OWNER = `SELECT id FROM users WHERE lower(email) = lower(?)`

const SELECT_VERSION = `SELECT updated_at FROM users WHERE id = ?`

const DELETE = `DELETE FROM users WHERE id = ? AND updated_at = ?`

const SELECT_KEY = `
  SELECT user_id, fingerprint, user_version, user_json
  FROM idempotency_keys WHERE key_hash = ? AND expires_at > ?`

const INSERT_KEY = `
  INSERT INTO idempotency_keys (key_hash, user_id, fingerprint, user_version, user_json, expires_at)
  VALUES (?, ?, ?, ?, ?, ?)`

/** Each new key deletes up to this many expired ones, which is faster than they can be added. */
const EXPIRED_KEYS_A_SWEEP = 2

const DELETE_EXPIRED_KEYS = `
  DELETE FROM idempotency_keys WHERE key_hash = @keyHash AND expires_at <= @now OR key_hash IN (
    SELECT key_hash FROM idempotency_keys WHERE expires_at <= @now LIMIT ${EXPIRED_KEYS_A_SWEEP})`

/** At most this many users are sorted for one page. */
const MAX_SORTED_USERS = 10_000

/** Lists have thousands of possible forms, but clients use only few of them. */
const MAX_PREPARED_FORMS = 200

/** Users in the table `users` of SQLite. Reads run at once; writes go through the queue. */
export function createSqliteUserRepository(options: SqliteUserRepositoryOptions): UserRepository {
  const { database, writes, view, now, steadyNow = now } = options
  const insert = database.prepare<unknown[], string>(INSERT).pluck()
  const select = database.prepare<[number], string>(SELECT).pluck()
  const selectDigest = database.prepare<[number], string | null>(SELECT_DIGEST).pluck()
  const selectEmailOwner = database.prepare<[string], number>(SELECT_EMAIL_OWNER).pluck()
  const selectVersion = database.prepare<[number], string>(SELECT_VERSION).pluck()
  const remove = database.prepare<[number, string]>(DELETE)
  const selectRevision = database.prepare<[], string>(SELECT_REVISION).pluck()
  const selectKey = database.prepare<[Buffer, number], KeyRow>(SELECT_KEY)
  const insertKey = database.prepare(INSERT_KEY)
  const deleteExpiredKeys = database.prepare(DELETE_EXPIRED_KEYS)
  const prepared = rememberStatements(database, MAX_PREPARED_FORMS)
  const update = createUserUpdate({ database, now })

  async function read<T>(query: () => T): Promise<T> {
    if (!database.open) throw new ServiceError('shutting_down')
    try {
      return view.read(query)
    } catch (error) {
      throw translateSqliteError(error)
    }
  }

  function claimKey({ keyHash }: IdempotencyClaim): void {
    deleteExpiredKeys.run({ keyHash, now: steadyNow() })
    if (selectKey.get(keyHash, steadyNow()) !== undefined) {
      throw new ServiceError('idempotency_key_in_use')
    }
  }

  function list(query: UserQuery): UserPage {
    const { sort, filters, limit, start } = query
    const index = indexWorthSorting(query)
    const { form, sql } = listStatement(query, index)
    const row = prepared(form, sql)
      .raw()
      .get({ ...filters, limit, offset: 0, ...start }) as ListRow
    const [json, length, revision, total] = row
    const page = length > limit ? withoutLastUser(json) : json
    return {
      json: page,
      next: length > limit ? positionOf(lastIdOf(page), sort) : undefined,
      total: total ?? undefined,
      revision,
    }
  }

  function positionOf(id: number, sort: UserSort): Position {
    if (sort.by === 'id') return { key: '', id }
    const statement = prepared(sort.by, () => sortKeySql(sort))
    return { key: statement.pluck().get({ id }) as string, id }
  }

  function indexWorthSorting(query: UserQuery): IndexName | undefined {
    const index = rangeIndex(query)
    if (index === undefined) return undefined
    const sql = matchesSql(query.filters, index)
    const matches = prepared(sql, () => sql).pluck()
    const count = matches.get({ ...query.filters, most: MAX_SORTED_USERS + 1 }) as number
    return count <= MAX_SORTED_USERS ? index : undefined
  }

  return {
    create: ({ name, email, passwordDigest }, claim) =>
      writes.run(() =>
        mapTakenEmail(() => {
          if (claim !== undefined) claimKey(claim)
          const time = new Date(now()).toISOString()
          const json = insert.get(name, foldCase(name), email, passwordDigest, time, time)
          const user = storedUser(json as string)
          requireExactId(user.id)
          if (claim !== undefined) {
            const { keyHash, fingerprint } = claim
            const expiresAt = steadyNow() + IDEMPOTENCY_TTL_MS
            insertKey.run(keyHash, user.id, fingerprint, user.version, user.json, expiresAt)
          }
          return user
        }),
      ),

    findIdempotentCreate: keyHash =>
      read(() => {
        const row = selectKey.get(keyHash, steadyNow())
        if (row === undefined) return undefined
        const { user_id: id, user_version: version, user_json: json, fingerprint } = row
        if (fingerprint === null || version === null || json === null) return 'user_deleted'
        return { fingerprint, user: { id, version, json } }
      }),

    find: id => read(() => foundUser(select.get(id))),

    findDigests: ids => read(() => findEach(ids, id => selectDigest.get(id))),

    isEmailTaken: (email, exceptId) =>
      read(() => {
        const owner = selectEmailOwner.get(email)
        return owner !== undefined && owner !== exceptId
      }),

    update: (id, change, expected) =>
      writes.run(() => {
        const updated = mapTakenEmail(() => update(id, change, expected))
        return updated === DIGEST_CHANGED ? updated : foundUser(updated)
      }),

    delete: (id, expected) =>
      writes.run(() => {
        const version = selectVersion.get(id)
        if (version === undefined) return false
        return remove.run(id, expectedVersion(version, expected)).changes === 1
      }),

    list: query => read(() => list(query)),

    revision: () => read(() => selectRevision.get() as string),

    ping: async () => {
      await read(() => select.get(1))
    },
  }
}

function foundUser(json: string | undefined): StoredUser | undefined {
  return json === undefined ? undefined : storedUser(json)
}

function mapTakenEmail<T>(write: () => T): T {
  try {
    return write()
  } catch (error) {
    throw violates(error, 'users_email_unique') ? new ServiceError('email_taken') : error
  }
}
