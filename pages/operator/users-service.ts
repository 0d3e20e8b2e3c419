import { Refusal, readToken, request } from './service.ts'

/** A user, as `GET /users/{id}` answers. */
export interface User {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly created_at: string
  readonly updated_at: string
}

/** With the version that a change must name. */
export interface StoredUser extends User {
  readonly etag: string
}

/** What the page can change. A password of `null` is removed. */
export type UserFields = Partial<Record<'name' | 'email', string> & { password: string | null }>

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

export async function fetchUser(id: string): Promise<StoredUser> {
  return withVersion(await request('GET', `users/${id}`))
}

/** Creates a user, or changes the one that is `known`. Throws a `Refusal` with 412 if it has another version by now. */
export async function saveUser(known: StoredUser | undefined, user: UserFields) {
  if (known === undefined) return withVersion(await request('POST', 'users', { sent: { user } }))
  const headers = { 'If-Match': known.etag }
  return withVersion(await request('PUT', `users/${known.id}`, { sent: { user }, headers }))
}

/** What became of one user of many. */
export interface UserEntry {
  readonly status: 201 | 422
  /** Messages by field. */
  readonly errors: Readonly<Record<string, readonly string[]>>
}

/** Creates up to 100 users, or none if it throws. */
export async function createUsers(users: readonly UserFields[]): Promise<readonly UserEntry[]> {
  const { body } = await request('POST', 'users', { sent: { users } })
  return (body as { readonly data: readonly UserEntry[] }).data
}

/** Throws as `saveUser`. */
export async function deleteUser({ id, etag }: StoredUser): Promise<void> {
  await request('DELETE', `users/${id}`, { headers: { 'If-Match': etag } })
}

/** Deletes up to 100 users at once, or none if it throws. */
export async function deleteUsers(ids: readonly number[]): Promise<void> {
  await request('DELETE', `users?id=${ids}`)
}

/** All users that parameters of the list find, as a file for spreadsheets. */
export async function fetchCsv(parameters: Record<string, string>): Promise<Blob> {
  const token = readToken()
  const authorization = token === undefined ? {} : { Authorization: `Bearer ${token}` }
  const headers = { Accept: 'text/csv', ...authorization }
  const response = await fetch(`users?${new URLSearchParams(parameters)}`, { headers })
  if (response.ok) return response.blob()
  throw new Refusal(response.status, await response.json().catch(() => undefined))
}

function withVersion({ body, headers }: Awaited<ReturnType<typeof request>>): StoredUser {
  return { ...(body as User), etag: headers.get('etag') ?? '' }
}

/** Less than proxies wait. */
const WAIT_SECONDS = 50

/** Between two answers, however much changes. */
const PAUSE_MS = 1000
const PAUSE_AFTER_FAILURE_MS = 5000

/** Calls `onNews` first, after changes of users, and with the error after a failure, until `signal` is aborted. */
export async function followChanges(
  signal: AbortSignal,
  onNews: (failure?: unknown) => void,
): Promise<void> {
  for (let after = 'now'; !signal.aborted; ) {
    let pauseMs = PAUSE_MS
    const wait = after === 'now' ? 0 : WAIT_SECONDS
    const query = new URLSearchParams({ after, wait: `${wait}`, limit: '1' })
    try {
      const path = `users/changes?${query}`
      const { body } = await request('GET', path, { signal, waitMs: wait * 1000 })
      const { data, has_more, next } = body as { data: object[]; has_more: boolean; next: string }
      if (after === 'now' || data.length > 0) onNews()
      // What changed after the first change is in the lists that are read now.
      after = has_more ? 'now' : next
    } catch (error) {
      after = 'now'
      pauseMs = PAUSE_AFTER_FAILURE_MS
      if (!signal.aborted) onNews(error)
    }
    await new Promise(resolve => setTimeout(resolve, pauseMs))
  }
}
