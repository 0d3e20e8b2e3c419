import type { SentParameter } from '../../http/query.ts'
import { parseWholeList } from '../list-query.ts'
import { canonicalOf } from '../passwords/parse-digest.ts'
import type { UserJson } from '../user-repository.ts'
import { readWholeList, type ScannedRepository } from '../whole-list.ts'

export { USER_COLUMNS } from '../whole-list.ts'

export interface UserExportOptions {
  readonly users: ScannedRepository
  /** Filters, with the names that the list has for clients. */
  readonly parameters: readonly SentParameter[]
  /** Whether each user also has a `password_digest`, which is `null` without a password. */
  readonly withDigests: boolean
}

/** The users of a whole list, page by page. Throws `query_invalid` at once. */
export function pagesToExport({ users, parameters, withDigests }: UserExportOptions) {
  const asked = parseWholeList(parameters)

  async function* pages(): AsyncGenerator<readonly UserJson[]> {
    for await (const { lines, digests } of readWholeList(users, { ...asked, withDigests })) {
      const page = lines.split('\n').slice(0, -1)
      yield withDigests ? page.map((json, at) => addDigest(json, digests[at])) : page
    }
  }

  return pages()
}

function addDigest(json: UserJson, digest: string | null | undefined): UserJson {
  const shown = JSON.stringify(digest == null ? null : canonicalOf(digest))
  return `${json.slice(0, -1)},"password_digest":${shown}}`
}
