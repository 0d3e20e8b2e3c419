import {
  type ChangePage,
  type ChangePosition,
  isAfter,
  type UserChange,
} from '../users/user-changes.ts'
import type { UserJson } from '../users/user-repository.ts'

/** A user of the feed. `key` is that of its position. */
export type ChangeRow = readonly [
  id: number,
  key: string | number,
  json: UserJson | null,
  deletedAt?: string | null,
]

/** With many users that have changed since, a page looks at this many and may show none of them. */
export const BASELINE_ROWS = 1000

/** Deletions that one transaction forgets. */
export const DELETIONS_A_TIME = 500

/** The position before all changes. */
export const BEGINNING = { phase: 'changes', key: '0', id: 0 } as const

/** A page of up to `BASELINE_ROWS` users from before the feed. Those without JSON come later, with their change. */
export function baselinePageOf(
  rows: readonly ChangeRow[],
  after: ChangePosition,
  limit: number,
): ChangePage {
  const changes: UserChange[] = []
  let next = after
  for (const row of rows) {
    const change = toChange(row, after)
    next = change.position
    if (change.user === undefined) continue
    changes.push(change)
    if (changes.length === limit) return { changes, next, hasMore: true }
  }
  if (rows.length < BASELINE_ROWS) next = { ...after, ...BEGINNING }
  return { changes, next, hasMore: true }
}

/**
 * A page of changes, of which there is one row more than `limit` if more follow. Who has seen all needs no deletion that is
 * forgotten by now, whenever the reading began: so all of them go on from one place, and share their next read.
 */
export function changePageOf(
  rows: readonly ChangeRow[],
  after: ChangePosition,
  limit: number,
  forgotten: Pick<ChangePosition, 'key' | 'id'>,
): ChangePage {
  const changes = rows.slice(0, limit).map(row => toChange(row, after))
  const last = changes.at(-1)?.position ?? after
  if (rows.length > limit) return { changes, next: last, hasMore: true }
  const from = { ...after, ...forgotten }
  return { changes, next: { ...(isAfter(from, last) ? from : last), since: '0' }, hasMore: false }
}

function toChange([id, key, json, deletedAt]: ChangeRow, after: ChangePosition): UserChange {
  return {
    position: { ...after, key: String(key), id },
    id,
    user: json ?? undefined,
    deletedAt: deletedAt ?? undefined,
  }
}
