import { request } from './service.ts'

/** A user, as `GET /users/{id}` answers. */
export interface User {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly created_at: string
  readonly updated_at: string
}

/** What the page can change. A password of `null` removes it. */
export interface UserFields {
  readonly name?: string
  readonly email?: string
  readonly password?: string | null
}

/** A user, and the version that a change of it must name. */
export interface StoredUser {
  readonly user: User
  readonly etag: string
}

export interface UserPage {
  readonly users: readonly User[]
  /** The query of the next page; `undefined` for the last one. */
  readonly next: string | undefined
}

export async function fetchUsers(query: string, signal: AbortSignal): Promise<UserPage> {
  const { body, headers } = await request('GET', `users?${query}`, { signal })
  const [, next] = /\?([^>]*)>; rel="next"/.exec(headers.get('link') ?? '') ?? []
  return { users: body as readonly User[], next }
}

export function fetchUser(id: string): Promise<StoredUser> {
  return askForUser('GET', `users/${id}`)
}

export function createUser(user: UserFields): Promise<StoredUser> {
  return askForUser('POST', 'users', { user })
}

/** Throws a `Refusal` with the status 412 if the user has another version by now. So does `deleteUser`. */
export function changeUser({ user: { id }, etag }: StoredUser, user: UserFields) {
  return askForUser('PUT', `users/${id}`, { user }, { 'If-Match': etag })
}

export async function deleteUser({ user: { id }, etag }: StoredUser): Promise<void> {
  await request('DELETE', `users/${id}`, { headers: { 'If-Match': etag } })
}

async function askForUser(
  method: string,
  path: string,
  sent?: object,
  sentHeaders: Record<string, string> = {},
): Promise<StoredUser> {
  const { body, headers } = await request(method, path, { sent, headers: sentHeaders })
  return { user: body as User, etag: headers.get('etag') ?? '' }
}

/** The place after the last change. */
const NOW = 'now'

/** Less than proxies wait. */
const WAIT_SECONDS = 50

/** The shortest time between two answers, however much changes. */
const PAUSE_MS = 1000
const PAUSE_AFTER_FAILURE_MS = 5000

/** Calls `onNews` first, and then after changes of users, until `signal` is aborted. */
export async function followChanges(
  signal: AbortSignal,
  onNews: () => void,
  onFailure: (error: unknown) => void,
): Promise<void> {
  for (let after = NOW; !signal.aborted; ) {
    let pauseMs = PAUSE_MS
    const wait = after === NOW ? 0 : WAIT_SECONDS
    try {
      const query = new URLSearchParams({ after, wait: `${wait}`, limit: '1' })
      const options = { signal, waitMs: wait * 1000 }
      const { body } = await request('GET', `users/changes?${query}`, options)
      const { data, has_more, next } = body as {
        data: readonly unknown[]
        has_more: boolean
        next: string
      }
      if (after === NOW || data.length > 0) onNews()
      // What follows the first of several changes is in the list that is read now.
      after = has_more ? NOW : next
    } catch (error) {
      after = NOW
      pauseMs = PAUSE_AFTER_FAILURE_MS
      if (!signal.aborted) onFailure(error)
    }
    await new Promise(resolve => setTimeout(resolve, pauseMs))
  }
}
