import type { Database } from 'better-sqlite3'
import { ServiceError } from '../errors.ts'
import { translateSqliteError, violates } from '../storage/sqlite-errors.ts'
import type { WriteQueue } from '../storage/write-queue.ts'
import type { StoredUser, UserRepository } from './user-repository.ts'

export interface SqliteUserRepositoryOptions {
  readonly database: Database
  readonly writes: WriteQueue
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

interface UserRow {
  readonly name: string
  readonly email: string
  readonly password_digest: string | null
  readonly updated_at: string
}

/** The one place that says what a user looks like from outside; it does not name the digest. */
const REPRESENTATION = `json_object(
  'id', id, 'name', name, 'email', email, 'created_at', created_at, 'updated_at', updated_at)`

const STORED_USER = `id, version, ${REPRESENTATION} AS json`

const INSERT = `
  INSERT INTO users (name, name_lower, email, password_digest, created_at, updated_at)
  VALUES (@name, @nameLower, @email, @passwordDigest, @now, @now)
  RETURNING ${STORED_USER}`

const SELECT = `SELECT ${STORED_USER} FROM users WHERE id = ?`

const SELECT_DIGEST = `SELECT password_digest FROM users WHERE id = ?`

const SELECT_EMAIL_OWNER = `SELECT id FROM users WHERE lower(email) = lower(?)`

const SELECT_CHANGEABLE = `
  SELECT name, email, password_digest, updated_at FROM users WHERE id = ?`

const UPDATE = `
  UPDATE users
  SET name = @name, name_lower = @nameLower, email = @email, password_digest = @passwordDigest,
    updated_at = @updatedAt, version = version + 1
  WHERE id = @id
  RETURNING ${STORED_USER}`

const DELETE = `DELETE FROM users WHERE id = ?`

const LIST = `
  SELECT json_group_array(json(json))
  FROM (SELECT ${REPRESENTATION} AS json FROM users ORDER BY id LIMIT ?)`

/** Users in the table `users` of SQLite. Reads run at once; writes go through the queue. */
export function createSqliteUserRepository(options: SqliteUserRepositoryOptions): UserRepository {
  const { database, writes, now } = options
  const insert = database.prepare<[object], StoredUser>(INSERT)
  const select = database.prepare<[number], StoredUser>(SELECT)
  const selectDigest = database.prepare<[number], string | null>(SELECT_DIGEST).pluck()
  const selectEmailOwner = database.prepare<[string], number>(SELECT_EMAIL_OWNER).pluck()
  const selectChangeable = database.prepare<[number], UserRow>(SELECT_CHANGEABLE)
  const update = database.prepare<[object], StoredUser>(UPDATE)
  const remove = database.prepare<[number]>(DELETE)
  const list = database.prepare<[number], string>(LIST).pluck()
  const ping = database.prepare('SELECT 1 FROM users LIMIT 1')

  async function read<T>(query: () => T): Promise<T> {
    if (!database.open) throw new ServiceError('shutting_down')
    try {
      return query()
    } catch (error) {
      throw translateSqliteError(error)
    }
  }

  return {
    create: ({ name, email, passwordDigest }) =>
      writes.run(() =>
        refusingTakenEmail(() => {
          const time = new Date(now()).toISOString()
          const row = { name, nameLower: name.toLowerCase(), email, passwordDigest, now: time }
          return insert.get(row) as StoredUser
        }),
      ),

    find: id => read(() => select.get(id)),

    findPasswordDigest: id => read(() => selectDigest.get(id)),

    isEmailTaken: (email, exceptId) =>
      read(() => {
        const owner = selectEmailOwner.get(email)
        return owner !== undefined && owner !== exceptId
      }),

    update: (id, change) =>
      writes.run(() =>
        refusingTakenEmail(() => {
          const row = selectChangeable.get(id)
          if (row === undefined) return undefined
          const name = change.name ?? row.name
          const email = change.email ?? row.email
          const passwordDigest =
            change.passwordDigest === undefined ? row.password_digest : change.passwordDigest
          if (name === row.name && email === row.email && passwordDigest === row.password_digest) {
            return select.get(id)
          }
          const updatedAt = laterThan(row.updated_at, now())
          return update.get({
            id,
            name,
            nameLower: name.toLowerCase(),
            email,
            passwordDigest,
            updatedAt,
          })
        }),
      ),

    delete: id => writes.run(() => remove.run(id).changes === 1),

    list: limit => read(() => list.get(limit) as string),

    ping: async () => {
      await read(() => ping.get())
    },
  }
}

function refusingTakenEmail<T>(write: () => T): T {
  try {
    return write()
  } catch (error) {
    throw violates(error, 'users_email_unique') ? new ServiceError('email_taken') : error
  }
}

/** The current time, or one millisecond after `previous` where the clock stands still or went back. */
function laterThan(previous: string, now: number): string {
  return new Date(Math.max(now, Date.parse(previous) + 1)).toISOString()
}
