import type { Cursors } from './cursor.ts'
import { type ListParameter, parseListRequest } from './list-request.ts'
import type { Position, UserJson, UserRepository } from './user-repository.ts'
import { idOf, splitUsers } from './user-representation.ts'

export interface UserExportOptions {
  /** Filters and sort of the list, as clients name them. */
  readonly parameters: readonly ListParameter[]
  /** Whether each user has a `password_digest` as well, which is `null` where there is no password. */
  readonly withDigests: boolean
}

export interface UserExporter {
  /** How many users match. Throws `query_invalid`. */
  count(options: UserExportOptions): Promise<number>
  /**
   * The users that match, some at a time, as the list gives them: who is there throughout comes once, whatever is
   * created, changed or deleted meanwhile. Throws `query_invalid` and `storage_unavailable`.
   */
  users(options: UserExportOptions): AsyncIterable<readonly UserJson[]>
}

const USERS_A_PAGE = 1000

export function createUserExporter(options: {
  readonly users: UserRepository
  readonly cursors: Cursors
}): UserExporter {
  const { users: repository, cursors } = options

  async function withDigest(json: UserJson): Promise<UserJson> {
    const digest = (await repository.findPasswordDigest(idOf(json))) ?? null
    return `${json.slice(0, -1)},"password_digest":${JSON.stringify(digest)}}`
  }

  async function* users({ parameters, withDigests }: UserExportOptions) {
    const { sort, filters } = parseListRequest(parameters, cursors)
    let start: Position | { readonly offset: number } | undefined = { offset: 0 }
    while (start !== undefined) {
      const query = { sort, filters, limit: USERS_A_PAGE, start, withTotal: false }
      const page = await repository.list(query)
      const found = splitUsers(page.json)
      yield withDigests ? await Promise.all(found.map(withDigest)) : found
      start = page.next
    }
  }

  return {
    users,
    count: async ({ parameters }) => {
      const { sort, filters } = parseListRequest(parameters, cursors)
      const query = { sort, filters, limit: 1, start: { offset: 0 }, withTotal: true }
      return (await repository.list(query)).total ?? 0
    },
  }
}
