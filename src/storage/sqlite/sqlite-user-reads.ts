import { ServiceError } from '../../errors.ts'
import { lastIdOf, storedUser, withoutLastUser } from '../../users/stored-user.ts'
import type {
  Position,
  StoredUser,
  UserPage,
  UserQuery,
  UserReads,
  UserSort,
} from '../../users/user-repository.ts'
import { createListPlanner } from './list-plan.ts'
import { fromRangeOn } from './list-walks.ts'
import { createLongLists, type LongLists, SLICE_MS } from './long-lists.ts'
import type { ReadView } from './read-view.ts'
import { type Sliced, workUntil } from './sliced.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { findEach, rememberStatements } from './sqlite-statements.ts'
import {
  type IndexedFilter,
  type ListRow,
  listStatement,
  SELECT_REVISION,
  sortKeySql,
} from './user-list-sql.ts'
import { REPRESENTATION } from './user-representation.ts'
import { createWideList } from './wide-list.ts'
import { createWordIndexCheck } from './word-index.ts'
import { createWordSearch } from './word-search.ts'

export interface SqliteUserReadsOptions {
  readonly database: Database
  readonly view: ReadView
  /** Whoever opens them closes them before the database. */
  readonly longLists?: LongLists
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
  const { database, view, steadyNow, longLists = createLongLists(database) } = options
  const select = database.prepare<[number], string>(SELECT).pluck()
  const selectByEmail = database.prepare<[string], DigestRow>(SELECT_BY_EMAIL)
  const selectDigest = database.prepare<[number], string | null>(SELECT_DIGEST).pluck()
  const selectEmailOwner = database.prepare<[string], number>(SELECT_EMAIL_OWNER).pluck()
  const selectRevision = database.prepare<[], string>(SELECT_REVISION).pluck()
  const selectKey = database.prepare<[Buffer, number], KeyRow>(SELECT_KEY)
  const prepared = rememberStatements(database, MAX_PREPARED_FORMS)
  const hasWordIndex = createWordIndexCheck(database)
  const searchWords = createWordSearch(database)
  const planList = createListPlanner(database)
  const listInSlices = createWideList(database)

  async function read<T>(query: () => T): Promise<T> {
    if (!database.open) throw new ServiceError('shutting_down')
    try {
      return view.read(query)
    } catch (error) {
      throw translateSqliteError(error)
    }
  }

  function listAtOnce(query: UserQuery, index?: IndexedFilter): UserPage {
    const { sort, filters, limit, start } = fromRangeOn(query)
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

  /** Most lists take less than a millisecond. One that takes long begins again where other requests can come between. */
  async function list(query: UserQuery): Promise<UserPage> {
    const page = await read(() => {
      if (query.words.length === 0) {
        const { isWide, index } = planList(query)
        return isWide ? begin(listInSlices(query)) : listAtOnce(query, index)
      }
      if (!hasWordIndex()) throw new ServiceError('words_unavailable')
      return begin(searchWords(query))
    })
    return page ?? longLists.list(query)
  }

  /** The list if it takes no longer than others can wait for it. */
  function begin(slices: Sliced<UserPage>): UserPage | undefined {
    // A database in memory has one connection, with which no list can go on in the next turn.
    const patienceMs = database.memory ? Number.POSITIVE_INFINITY : SLICE_MS
    return workUntil(slices, performance.now() + patienceMs)
  }

  function positionOf(id: number, sort: UserSort): Position {
    if (sort.by === 'id') return { key: '', id }
    const statement = prepared(sort.by, () => sortKeySql(sort))
    return { key: statement.pluck().get({ id }) as string, id }
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

    findDigests: ids => read(() => findEach(ids, id => selectDigest.get(id))),

    isEmailTaken: (email, exceptId) =>
      read(() => {
        const owner = selectEmailOwner.get(email)
        return owner !== undefined && owner !== exceptId
      }),

    list,

    revision: () => read(() => selectRevision.get() as string),

    ping: async () => {
      await read(() => select.get(1))
    },
  }
}

function foundUser(json: string | undefined): StoredUser | undefined {
  return json === undefined ? undefined : storedUser(json)
}
