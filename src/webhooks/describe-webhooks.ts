import { ServiceError } from '../errors.ts'
import { decodeChangeCursor } from '../users/cursor.ts'
import { timeOf, type UserChanges } from '../users/user-changes.ts'
import { type StoredWebhook, shownUrl } from './webhook.ts'

/** A webhook as lists, `GET /status` and the page show it. Times are ISO 8601. */
export interface ShownWebhook {
  readonly name: string
  /** Without credentials, query and fragment. */
  readonly url: string
  readonly state: 'active' | 'failing' | 'disabled'
  /** Since the oldest change that waits; 0 if none does. */
  readonly behind_seconds: number
  readonly failing_since: string | null
  /** Or why it is disabled. */
  readonly last_error: string | null
}

const CAUSES = { copied: 'its database was copied', restored: 'its database was restored' }

/** Each webhook, with how far it is behind the feed. */
export function describeWebhooks(
  webhooks: readonly StoredWebhook[],
  changes: Pick<UserChanges, 'read'>,
  now: number,
): Promise<ShownWebhook[]> {
  return Promise.all(
    webhooks.map(async webhook => {
      const { name, url, disabled, failingSince, lastError = null } = webhook
      const since = await pendingSince(webhook, changes)
      return {
        name,
        url: shownUrl(url),
        state: disabled ? 'disabled' : failingSince === undefined ? 'active' : 'failing',
        behind_seconds: since === undefined ? 0 : Math.max(0, Math.round((now - since) / 1000)),
        failing_since: failingSince === undefined ? null : new Date(failingSince).toISOString(),
        last_error: disabled && disabled !== 'gone' ? CAUSES[disabled] : lastError,
      }
    }),
  )
}

/** When the oldest change that waits was made, but not before the webhook began. Milliseconds since the epoch. */
async function pendingSince(
  { cursor, begunAt, resetAt }: StoredWebhook,
  changes: Pick<UserChanges, 'read'>,
): Promise<number | undefined> {
  if (resetAt !== undefined) return resetAt
  const position = cursor === undefined ? undefined : decodeChangeCursor(cursor)
  if (cursor !== undefined && position === undefined) return begunAt
  try {
    // A page may be empty and have more after it.
    for (let after = position; ; ) {
      const page = await changes.read(after, 1)
      const [oldest] = page.changes
      if (oldest !== undefined) return Math.max(Date.parse(timeOf(oldest)), begunAt)
      if (!page.hasMore) return undefined
      after = page.next
    }
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'cursor_expired') return begunAt
    throw error
  }
}
