import type { RawAnswer } from '../support/raw-http.ts'
import type { ShownUser } from '../support/user-order.ts'

export type SortKey = keyof ShownUser

/** A user as the service must show it. */
export interface ModelUser {
  shown: ShownUser
  tag: string
  /** The ETags of its previous versions. */
  readonly oldTags: string[]
  password: string | null
}

/** The result of an idempotency key. */
export interface ModelKey {
  readonly body: string
  readonly id: number
  /** The user and the ETag in the first response. */
  readonly shown: ShownUser
  readonly tag: string
}

/** A place in a list that a client got. */
export interface ModelCursor {
  readonly text: string
  readonly sort: string
  readonly key: string
  readonly id: number
}

export interface ModelFilters {
  readonly email?: string
  readonly name?: string
  readonly q?: string
  readonly created_after?: string
  readonly created_before?: string
  readonly updated_after?: string
  readonly updated_before?: string
}

/** The expected users, kept as simply as possible. Responses of the service are compared with them. */
export interface UserModel {
  readonly users: Map<number, ModelUser>
  readonly keys: Map<string, ModelKey>
  readonly cursors: ModelCursor[]
  /** All assigned ids, in order. */
  readonly ids: number[]
  /** The user of the last change, which may have deleted it. */
  lastChanged: number
  /** The ETag of the lists since the last change, once a response had one, and the previous ones. */
  listTag: string | undefined
  readonly oldListTags: string[]
  isTaken(email: string | undefined, exceptId?: number): boolean
  add(answer: RawAnswer, password: string | null): ModelUser
  change(user: ModelUser, answer: RawAnswer): void
  remove(id: number): void
  /** In the order of a sort such as `-name`. */
  list(sort: string, filters: ModelFilters): ShownUser[]
  isBehind(user: ShownUser, cursor: ModelCursor): boolean
}

export function createUserModel(): UserModel {
  const users = new Map<number, ModelUser>()

  function noteChange(id: number): void {
    model.lastChanged = id
    if (model.listTag !== undefined) model.oldListTags.push(model.listTag)
    model.listTag = undefined
  }

  const model: UserModel = {
    users,
    keys: new Map(),
    cursors: [],
    ids: [],
    lastChanged: 0,
    listTag: undefined,
    oldListTags: [],

    isTaken: (email, exceptId) =>
      [...users.values()].some(
        ({ shown }) => shown.id !== exceptId && shown.email.toLowerCase() === email?.toLowerCase(),
      ),

    add: ({ body, headers }, password) => {
      const shown: ShownUser = JSON.parse(body)
      const user = { shown, tag: headers.etag ?? '', oldTags: [], password }
      users.set(shown.id, user)
      model.ids.push(shown.id)
      noteChange(shown.id)
      return user
    },

    change: (user, { body, headers }) => {
      user.shown = JSON.parse(body)
      user.oldTags.push(user.tag)
      user.tag = headers.etag ?? ''
      noteChange(user.shown.id)
    },

    remove: id => {
      users.delete(id)
      noteChange(id)
    },

    list: (sort, filters) =>
      [...users.values()]
        .map(({ shown }) => shown)
        .filter(user => matches(user, filters))
        .sort((one, other) => compare(sort, placeOf(sort, one), placeOf(sort, other))),

    isBehind: (user, cursor) => {
      const place = placeOf(cursor.sort, user)
      // E-mails are unique, so a user that now has the e-mail of the cursor came after it.
      if (cursor.sort.endsWith('email') && place.key === cursor.key) return false
      return compare(cursor.sort, place, cursor) > 0
    },
  }
  return model
}

/** Compares by the capital, which is the same for all small forms of a letter. The names of the test have no ß. */
export function fold(text: string): string {
  return text.toUpperCase().toLowerCase()
}

/** The names of the test have no marks but accents. */
export function wordsIn(text: string): string[] {
  const plain = fold(text.normalize('NFKD')).replace(/\p{M}/gu, '')
  return plain.match(/[\p{L}\p{N}]+/gu) ?? []
}

/** The sort key of a user, and its id. */
export function placeOf(sort: string, user: ShownUser): { key: string; id: number } {
  const by = sort.replace('-', '') as SortKey
  const value = String(user[by])
  const key = by === 'id' ? '' : by === 'name' ? fold(value) : value
  return { key: by === 'email' ? value.toLowerCase() : key, id: user.id }
}

type Place = ReturnType<typeof placeOf>

function compare(sort: string, one: Place, other: Place): number {
  // The byte order of UTF-8 is the order of code points.
  const byKey = Buffer.compare(Buffer.from(one.key), Buffer.from(other.key))
  return (byKey || one.id - other.id) * (sort.startsWith('-') ? -1 : 1)
}

function matches(user: ShownUser, filters: ModelFilters): boolean {
  const { email, name, q, created_after, created_before, updated_after, updated_before } = filters
  return (
    (q === undefined || isFound(user, wordsIn(q))) &&
    (email === undefined || user.email.toLowerCase() === email.toLowerCase()) &&
    (name === undefined || fold(user.name) === fold(name)) &&
    (created_after === undefined || user.created_at > created_after) &&
    (created_before === undefined || user.created_at < created_before) &&
    (updated_after === undefined || user.updated_at > updated_after) &&
    (updated_before === undefined || user.updated_at < updated_before)
  )
}

function isFound({ name, email }: ShownUser, asked: readonly string[]): boolean {
  const words = [...wordsIn(name), ...wordsIn(email)]
  return asked.every(beginning => words.some(word => word.startsWith(beginning)))
}
