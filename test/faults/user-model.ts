import type { RawAnswer } from '../support/raw-http.ts'
import type { ShownUser } from '../support/user-scan.ts'

/** A user as the service must show it. */
export interface ModelUser {
  shown: ShownUser
  tag: string
  /** The ETags of its previous versions. */
  readonly oldTags: string[]
  password: string | null
}

/** A place in a list that a client got. */
export interface ModelCursor {
  readonly text: string
  readonly sort: string
  readonly key: string
  readonly id: number
}

export type ModelFilters = Readonly<Record<string, string>>

export type UserModel = ReturnType<typeof createUserModel>

/** The expected users, kept as simply as possible. Responses of the service are compared with them. */
export function createUserModel() {
  const users = new Map<number, ModelUser>()

  function noteChange(id: number): void {
    model.lastChanged = id
    if (model.listTag !== undefined) model.oldListTags.push(model.listTag)
    model.listTag = undefined
  }

  const model = {
    users,
    /** The first responses to idempotency keys. */
    keys: new Map<string, Pick<ModelUser, 'shown' | 'tag'> & { readonly body: string }>(),
    cursors: [] as ModelCursor[],
    /** All assigned ids, in order. */
    ids: [] as number[],
    /** The user of the last change, which may have deleted it. */
    lastChanged: 0,
    /** The ETag of the lists since the last change, once a response had one, and the previous ones. */
    listTag: undefined as string | undefined,
    oldListTags: [] as string[],

    isTaken: (email: string | undefined, exceptId?: number): boolean =>
      [...users.values()].some(
        ({ shown }) => shown.id !== exceptId && shown.email.toLowerCase() === email?.toLowerCase(),
      ),

    add: ({ body, headers }: RawAnswer, password: string | null): ModelUser => {
      const shown: ShownUser = JSON.parse(body)
      const user = { shown, tag: headers.etag ?? '', oldTags: [], password }
      users.set(shown.id, user)
      model.ids.push(shown.id)
      noteChange(shown.id)
      return user
    },

    change: (user: ModelUser, { body, headers }: RawAnswer): void => {
      user.shown = JSON.parse(body)
      user.oldTags.push(user.tag)
      user.tag = headers.etag ?? ''
      noteChange(user.shown.id)
    },

    remove: (id: number): void => {
      users.delete(id)
      noteChange(id)
    },

    /** In the order of a sort such as `-name`. */
    list: (sort: string, filters: ModelFilters): ShownUser[] =>
      [...users.values()]
        .map(({ shown }) => shown)
        .filter(user => matches(user, filters))
        .sort((one, other) => compare(sort, placeOf(sort, one), placeOf(sort, other))),

    isBehind: (user: ShownUser, cursor: ModelCursor): boolean => {
      const place = placeOf(cursor.sort, user)
      // E-mails are unique, so a user that now has the e-mail of the cursor came after it.
      if (cursor.sort.endsWith('email') && place.key === cursor.key) return false
      return compare(cursor.sort, place, cursor) > 0
    },
  }
  return model
}

/** Compares by the capital, which is the same for all small forms of a letter. The names of the test have no ß. */
function fold(text: string): string {
  return text.toUpperCase().toLowerCase()
}

/** The names of the test have no marks but accents. */
export function wordsIn(text: string): string[] {
  const plain = fold(text.normalize('NFKD')).replace(/\p{M}/gu, '')
  return plain.match(/[\p{L}\p{N}]+/gu) ?? []
}

/** The sort key of a user, and its id. */
export function placeOf(sort: string, user: ShownUser): { key: string; id: number } {
  const by = sort.replace('-', '') as keyof ShownUser
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
  const words = [...wordsIn(user.name), ...wordsIn(user.email)]
  const isSo: Readonly<Record<string, (value: string) => boolean>> = {
    q: q => wordsIn(q).every(beginning => words.some(word => word.startsWith(beginning))),
    id: ids => ids.split(',').map(Number).includes(user.id),
    email: emails => emails.toLowerCase().split(',').includes(user.email.toLowerCase()),
    name: name => fold(user.name) === fold(name),
    created_after: time => user.created_at > time,
    created_before: time => user.created_at < time,
    updated_after: time => user.updated_at > time,
    updated_before: time => user.updated_at < time,
  }
  return Object.entries(filters).every(([name, value]) => isSo[name]?.(value))
}
