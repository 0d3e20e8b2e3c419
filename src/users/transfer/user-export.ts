import type { SentParameter } from '../../http/query.ts'
import { parseWholeList } from '../list-query.ts'
import { canonicalOf } from '../passwords/parse-digest.ts'
import { idOf, splitUsers } from '../stored-user.ts'
import type { UserJson, UserPage, UserQuery, UserRepository } from '../user-repository.ts'

export interface UserExportOptions {
  readonly users: Pick<UserRepository, 'list' | 'findDigests'>
  /** Filters and sort, with the names that the list has for clients. */
  readonly parameters: readonly SentParameter[]
  /** Whether each user also has a `password_digest`, which is `null` without a password. */
  readonly withDigests: boolean
}

const PAGE_USERS = 1000

/**
 * The users that match, in pages and in the order of the list. A user that exists during the whole export comes exactly
 * once, whatever is created, changed or deleted meanwhile. Throws `query_invalid` at once, and `storage_unavailable`.
 */
export function exportPages({ users, parameters, withDigests }: UserExportOptions) {
  const selection = parseWholeList(parameters)

  async function* pages(): AsyncGenerator<readonly UserJson[]> {
    let start: UserQuery['start'] | undefined = { offset: 0 }
    while (start !== undefined) {
      const query = { ...selection, limit: PAGE_USERS, start, withTotal: false }
      const { json, next }: UserPage = await users.list(query)
      const page = splitUsers(json)
      yield withDigests ? await addDigests(page) : page
      start = next
    }
  }

  async function addDigests(page: readonly UserJson[]): Promise<readonly UserJson[]> {
    const digests = await users.findDigests(page.map(idOf))
    return page.map(json => {
      const digest = digests.get(idOf(json))
      const shown = JSON.stringify(digest == null ? null : canonicalOf(digest))
      return `${json.slice(0, -1)},"password_digest":${shown}}`
    })
  }

  return pages()
}
