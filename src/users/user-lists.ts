import { stringify } from 'csv-stringify/sync'
import { ServiceError } from '../errors.ts'
import type { SentParameter } from '../http/query.ts'
import { nextTurn } from '../platform/timers.ts'
import { type ListRequest, parseListRequest, parseWholeList } from './list-query.ts'
import type { ScannedUsers, UserPage, UserRepository, UserScan } from './user-repository.ts'
import type { UserServiceOptions } from './user-service.ts'

/** A page of users. */
export interface UserList {
  /** The query that it answers. */
  readonly request: ListRequest
  readonly page: UserPage
  /** The cursor of the next page, if there is one. */
  readonly nextCursor: string | undefined
}

/** Limits of the lists that are kept: about 3 MB in all. */
const MAX_LISTS = 50
const MAX_LIST_CHARS = 65_536

/**
 * Makes lists, and keeps those that are asked for again: a client that polls the same page costs 52 µs of CPU instead of 137. The
 * others would only be work for the garbage collector, a tenth of the CPU of a page.
 */
export function createUserLists({ users, cursors }: Pick<UserServiceOptions, 'users' | 'cursors'>) {
  /** By the text of their parameters. `undefined` for a list that was asked for once. */
  const kept = new Map<string, UserList | undefined>()

  async function make(request: ListRequest): Promise<UserList> {
    const { sort, filters, words, perPage, page: number, after, count } = request
    const start = after ?? { offset: ((number ?? 1) - 1) * perPage }
    const page = await users.list({ sort, filters, words, limit: perPage, start, withTotal: count })
    return { request, page, nextCursor: page.next && cursors.encode(sort, page.next) }
  }

  function keep(form: string, list: UserList): void {
    if (list.page.json.length > MAX_LIST_CHARS) return
    const isRepeated = kept.has(form)
    if (!isRepeated && kept.size >= MAX_LISTS) kept.clear()
    kept.set(form, isRepeated ? list : undefined)
  }

  /**
   * The revision of the users, and the list unless `isKnown` says that the client has that of this revision. Throws
   * `query_invalid`.
   */
  return async (parameters: readonly SentParameter[], isKnown: (revision: string) => boolean) => {
    const form = JSON.stringify(parameters)
    const last = kept.get(form)
    const request = last?.request ?? parseListRequest(parameters, cursors)
    const revision = await users.revision()
    if (isKnown(revision)) return { revision }
    if (last?.page.revision === revision) return { revision, list: last }
    const list = await make(request)
    keep(form, list)
    return { revision, list }
  }
}

/** What a whole list is read from. */
export type ScannedRepository = Pick<UserRepository, 'scan'>

/** The columns of users, in the order of their JSON. */
export const USER_COLUMNS = ['id', 'name', 'email', 'created_at', 'updated_at'] as const

/** About 130 KB. */
const PART_USERS = 1000

/** Each has a part in memory for as long as its client reads. */
const MAX_RUNNING = 4

/** Making them into CSV takes less than a millisecond. */
const CSV_USERS = 250

/** How much is sent at once, in UTF-16 units. The first part may have 10,000 users. */
const SENT_UNITS = 128 * 1024

/**
 * All users that match, in the order of their ids, in parts, of which some may have none. One that exists and matches throughout
 * comes once, and none comes twice, whatever is written meanwhile. Between two parts nothing of the database is held.
 */
export async function* readWholeList(
  users: ScannedRepository,
  asked: Pick<UserScan, 'filters' | 'words' | 'withDigests'>,
): AsyncGenerator<ScannedUsers> {
  const scan = (afterId: number) => users.scan({ ...asked, afterId, limit: PART_USERS })
  for (let next: Promise<ScannedUsers> | undefined = scan(0); next !== undefined; ) {
    const part: ScannedUsers = await next
    // It is read while this one is used. Whoever uses it may end before that.
    next = part.nextAfterId === undefined ? undefined : scan(part.nextAfterId)
    next?.catch(() => {})
    yield part
  }
}

/** A form in which a response has a whole list. */
export interface WholeListForm {
  readonly type: string
  readonly headers: Readonly<Record<string, string>>
  readonly heading: string
  /** Makes texts of the lines of a part, each within a millisecond. */
  textsOf(lines: string): Iterable<string>
}

const CSV = { record_delimiter: '\r\n', escape_formulas: true } as const

/** The forms of a whole list beside that of a page. */
export const WHOLE_LIST_FORMS: readonly WholeListForm[] = [
  // One object a line: https://github.com/ndjson/ndjson-spec.
  { type: 'application/x-ndjson', headers: {}, heading: '', textsOf: piecesOf },
  // RFC 4180, as spreadsheets take it.
  {
    type: 'text/csv',
    headers: { 'Content-Disposition': 'attachment; filename="users.csv"' },
    heading: stringify([USER_COLUMNS], { ...CSV, bom: true }),
    textsOf: csvOf,
  },
]

function* piecesOf(lines: string): Generator<string> {
  for (let at = 0; at < lines.length; ) {
    const end = lines.indexOf('\n', at + SENT_UNITS)
    yield lines.slice(at, end < 0 ? undefined : end)
    at = end < 0 ? lines.length : end
  }
}

function* csvOf(lines: string): Generator<string> {
  const users = lines.split('\n').slice(0, -1)
  for (let at = 0; at < users.length; at += CSV_USERS) {
    // As arrays: for each cell of an object it would look whether the column is a path.
    const rows = users.slice(at, at + CSV_USERS).map(user => Object.values(JSON.parse(user)))
    yield stringify(rows, CSV)
  }
}

/** All users that match, in one response. */
export function createWholeLists(users: ScannedRepository) {
  let running = 0

  return {
    /** Throws `query_invalid`. The function that it returns sends the list, and throws `overloaded` while too many run. */
    open: (parameters: readonly SentParameter[], { heading, textsOf }: WholeListForm) => {
      const asked = parseWholeList(parameters)
      return async (send: (text: string) => Promise<void>): Promise<void> => {
        if (running >= MAX_RUNNING) throw new ServiceError('overloaded')
        running++
        try {
          let first = heading
          for await (const { lines } of readWholeList(users, asked)) {
            await send(first)
            first = ''
            for (const text of textsOf(lines)) {
              await nextTurn()
              await send(text)
            }
          }
        } finally {
          running--
        }
      }
    },
    running: () => running,
  }
}
