import { lastIdOf, withoutLastUser } from '../../users/stored-user.ts'
import type { UserPage } from '../../users/user-repository.ts'
import type { ListRow } from './list-sql.ts'

/** The page of a row, which has one user more than `limit` if more follow. */
export function toPage(row: ListRow, { limit }: { readonly limit: number }): UserPage {
  const [json, length, lastKey, revision, total] = row
  const hasMore = length > limit
  const page = hasMore ? withoutLastUser(json) : json
  return {
    json: page,
    next: hasMore ? { key: lastKey ?? '', id: lastIdOf(page) } : undefined,
    total: total ?? undefined,
    revision,
  }
}
