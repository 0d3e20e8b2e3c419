import type { SentParameter } from '../../http/query.ts'
import type { Cursors } from '../cursor.ts'
import { parseListRequest } from '../list-query.ts'
import { idOf, splitUsers } from '../stored-user.ts'
import type { UserJson, UserPage, UserQuery, UserRepository } from '../user-repository.ts'

export interface UserExportOptions {
  /** Filters and sort, with the names that the list has for clients. */
  readonly parameters: readonly SentParameter[]
  /** Whether each user also has a `password_digest`, which is `null` without a password. */
  readonly withDigests: boolean
}

const PAGE_USERS = 1000

export function createUserExporter(options: {
  readonly users: UserRepository
  readonly cursors: Cursors
}) {
  const { users: repository, cursors } = options

  async function addDigests(users: readonly UserJson[]): Promise<readonly UserJson[]> {
    const digests = await repository.findDigests(users.map(idOf))
    return users.map(json => {
      const digest = digests.get(idOf(json)) ?? null
      return `${json.slice(0, -1)},"password_digest":${JSON.stringify(digest)}}`
    })
  }

  return {
    /**
     * The users that match, in pages and in the order of the list. A user that exists during the whole export comes exactly
     * once, whatever is created, changed or deleted meanwhile. Throws `query_invalid` and `storage_unavailable`.
     */
    users: async function* ({ parameters, withDigests }: UserExportOptions) {
      const asked = parseListRequest(parameters, cursors)
      let start: UserQuery['start'] | undefined = { offset: 0 }
      while (start !== undefined) {
        const query = { ...asked, limit: PAGE_USERS, start, withTotal: false }
        const { json, next }: UserPage = await repository.list(query)
        const users = splitUsers(json)
        yield withDigests ? await addDigests(users) : users
        start = next
      }
    },
  }
}
