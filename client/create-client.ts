/** A user, as the service shows it. Times are ISO 8601 in UTC, with milliseconds. */
export interface User {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly created_at: string
  readonly updated_at: string
}

/** A user to create. Without a password, or with `null`, nobody can log in as this user. */
export interface NewUser {
  readonly name: string
  readonly email: string
  readonly password?: string | null | undefined
}

/** The fields to change. A password of `null` is removed. */
export type UserChange = { readonly [Field in keyof NewUser]?: NewUser[Field] | undefined }

/** An account and the password to check: by address, or by id for who is known already. */
export type Login = { readonly password: string } & (
  | { readonly email: string; readonly id?: undefined }
  | { readonly id: number; readonly email?: undefined }
)

type SortField = 'id' | 'name' | 'email' | 'created_at' | 'updated_at'

/** Which users, and in which order. Instants are ISO 8601 with `Z` or an offset, and exclusive. */
export interface UserFilter {
  /** Users per request, 1 to 1000. The service takes 100 by default. */
  readonly per_page?: number | undefined
  /** The cursor to go on from: `next` of an earlier page of the same `sort`. */
  readonly after?: string | undefined
  /** `-` in front is for descending. */
  readonly sort?: SortField | `-${SortField}` | undefined
  /** At most 500. */
  readonly id?: number | readonly number[] | undefined
  /** At most 100, in any case. */
  readonly email?: string | readonly string[] | undefined
  /** The whole name, in any case. */
  readonly name?: string | undefined
  /** One to eight words that begin words of the name or the e-mail. */
  readonly q?: string | undefined
  readonly created_after?: string | undefined
  readonly created_before?: string | undefined
  readonly updated_after?: string | undefined
  readonly updated_before?: string | undefined
}

/** One page of users. */
export interface UserQuery extends UserFilter {
  /** From 1; not together with `after`. */
  readonly page?: number | undefined
  /** `false` spares the service counting all users that match. */
  readonly count?: boolean | undefined
}

export interface UserPage {
  readonly data: readonly User[]
  /** How many users match on all pages; `undefined` with `count: false`. */
  readonly total: number | undefined
  /** What the query of the next page has as `after`; `undefined` on the last page. */
  readonly next: string | undefined
}

/** Messages by field. */
export type FieldErrors = Readonly<Record<string, readonly string[]>>

/** What became of one of many users to create. */
export type CreatedEntry =
  | { readonly status: 201; readonly user: User }
  | {
      readonly status: 422
      readonly message: string
      readonly reason: Reason
      readonly errors: FieldErrors
    }

/** What became of one of many users to delete: 404 if there was none. */
export interface DeletedEntry {
  readonly id: number
  readonly status: 204 | 404
}

/** The latest state of a user that changed; `null` if it was deleted. */
export type Change =
  | { readonly id: number; readonly user: User }
  | { readonly id: number; readonly user: null; readonly deleted_at: string }

export interface Changes {
  /** In the order in which they are to be applied. */
  readonly data: readonly Change[]
  /** The cursor to keep once `data` is applied, to go on from later. */
  readonly next: string
  /** Forget all users before `data` is applied: the service can no longer say what changed since the last cursor. */
  readonly reset: boolean
}

/** Where to begin, and how much at once. */
export interface ChangesQuery {
  /** `next` of earlier changes; without it, all users come first. */
  readonly after?: string | undefined
  /** Entries per request, 1 to 1000; 1000 by default. */
  readonly limit?: number | undefined
}

/** Names of what the service can say went wrong: https://datatracker.ietf.org/doc/html/rfc9457 calls them types. */
export type Reason =
  | 'blocked'
  | 'body_malformed'
  | 'body_too_large'
  | 'cursor_expired'
  | 'email_taken'
  | 'encoding_unsupported'
  | 'headers_too_large'
  | 'host_not_allowed'
  | 'idempotency_key_in_use'
  | 'idempotency_key_malformed'
  | 'idempotency_key_reused'
  | 'idempotent_user_deleted'
  | 'internal_error'
  | 'key_required'
  | 'media_type_unsupported'
  | 'not_acceptable'
  | 'outcome_unknown'
  | 'overloaded'
  | 'path_malformed'
  | 'query_invalid'
  | 'rate_limited'
  | 'request_malformed'
  | 'request_timeout'
  | 'scheme_not_allowed'
  | 'scope_missing'
  | 'shutting_down'
  | 'storage_unavailable'
  | 'target_too_long'
  | 'transfer_coding_unsupported'
  | 'user_not_found'
  | 'validation_failed'
  | 'version_mismatch'
  | 'wrong_credentials'

export interface ClientOptions {
  /** Where the service is. It may have a path; in a page it may be relative. */
  readonly url: string | URL
  /** The API key, if the service requires one. */
  readonly key?: string | undefined
  /** Used for every request in place of the global one. */
  readonly fetch?: typeof fetch | undefined
  /** For each try, until its answer is complete; 10,000 by default. */
  readonly timeoutMs?: number | undefined
  /** Tries after the first; 3 by default. */
  readonly retries?: number | undefined
}

/** Of every call. */
export interface CallOptions {
  /** Ends the call at once: it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** What every call throws, unless it was aborted. */
export class UserRecordsError extends Error {
  override readonly name = 'UserRecordsError'
  /** Of the answer; `undefined` without one. */
  readonly status: number | undefined
  /** `unreachable` without an answer (`cause` says why), `unexpected_answer` for one that is not the service's. */
  readonly reason: Reason | 'unreachable' | 'unexpected_answer'
  readonly errors: FieldErrors | undefined
  /** By which the log of the service has the request. */
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined
  /** Of `createMany` and `deleteMany`: what was answered before the hundred that failed. */
  entries?: readonly (CreatedEntry | DeletedEntry)[]

  constructor(
    message: string,
    {
      status,
      reason = 'unreachable',
      errors,
      requestId,
      retryAfterMs,
      cause,
    }: Partial<
      Pick<UserRecordsError, 'status' | 'reason' | 'errors' | 'requestId' | 'retryAfterMs'>
    > & { cause?: unknown },
  ) {
    super(message, { cause })
    this.status = status
    this.reason = reason
    this.errors = errors
    this.requestId = requestId
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * Users of one service. Each method says when it is repeated by itself: where it "may be repeated", after 409
 * `idempotency_key_in_use`, 429, 502, 503, 504, and a connection that broke or stayed silent; where it must not happen twice, only
 * where the service says that nothing was done (409, 429, 503 but `outcome_unknown`). A 429 without `Retry-After` is not repeated.
 */
export interface UserRecordsClient {
  /** The new user. May be repeated: an Idempotency-Key, made anew for each call unless it is given, keeps it from being made twice. */
  create(
    user: NewUser,
    options?: CallOptions & { readonly idempotencyKey?: string | undefined },
  ): Promise<User>
  /** An entry for each, in order. Any number; each hundred is a request of its own, and must not happen twice. */
  createMany(users: readonly NewUser[], options?: CallOptions): Promise<CreatedEntry[]>
  /** `undefined` if there is no such user. May be repeated. */
  read(id: number, options?: CallOptions): Promise<User | undefined>
  /** What `ifMatch` takes: the user's strong ETag, or `undefined` if there is no such user. May be repeated. */
  version(id: number, options?: CallOptions): Promise<string | undefined>
  /** The user as it is now. May be repeated; with `ifMatch` it must not happen twice. */
  update(
    id: number,
    change: UserChange,
    options?: CallOptions & { readonly ifMatch?: string | undefined },
  ): Promise<User>
  /** `false` if there was no such user. May be repeated: where an earlier try may have deleted it, it is `true`. */
  delete(id: number, options?: CallOptions): Promise<boolean>
  /** An entry for each id, an id that came twice once. Any number, in requests of a hundred. May be repeated, as `delete`. */
  deleteMany(ids: readonly number[], options?: CallOptions): Promise<DeletedEntry[]>
  /** Every user that matches, page after page, as the loop asks for them. Each page may be repeated. */
  list(filter?: UserFilter, options?: CallOptions): AsyncGenerator<User, void, undefined>
  /** One page. May be repeated. */
  page(query?: UserQuery, options?: CallOptions): Promise<UserPage>
  /** The user, or `undefined` if the password is wrong or there is no such user. May be repeated. */
  verify(login: Login, options?: CallOptions): Promise<User | undefined>
  /** What changes, for ever: it waits for the service as long as it is away. Apply `data`, then keep `next`. */
  changes(query?: ChangesQuery, options?: CallOptions): AsyncGenerator<Changes, never, undefined>
}

interface Call extends CallOptions {
  readonly method: string
  /** After the address of the service. */
  readonly path: string
  readonly query?: object
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
  /** Whether an answer of success has the form that the call expects, which is a user by default. */
  readonly fits?: (body: Answer['body'], status: number) => boolean
  /** The refusal that is an answer too, one without a body. */
  readonly nothing?: Reason | undefined
  /** Not repeated unless nothing was done. */
  readonly isOnce?: boolean
  /** Repeated until there is an answer. */
  readonly isEndless?: boolean
  /** How long the service may hold the request. */
  readonly waitMs?: number
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: `fits` has checked it.
  readonly body: any
  /** Whether an earlier try may have done what was asked for. */
  readonly isRepeated: boolean
}

/** The most that the service takes at once. Fewer where they are large, because it takes bodies of 100 kB. */
const MAX_ENTRIES = 100
const MAX_ENTRIES_BYTES = 90_000

/** A longer `Retry-After` is for the caller to decide on. */
const MAX_RETRY_AFTER_MS = 60_000
const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000

/** Less than proxies wait for an answer. */
const WAIT_SECONDS = 20
/** An empty answer to a request that waits comes sooner only if the service stops, or if too many wait. */
const SOON_MS = 1000

const MAX_REDIRECTS = 5
const MAX_TIMER_MS = 2 ** 31 - 1

/** Throws a `TypeError` for what is no URL. */
export function createClient(options: ClientOptions): UserRecordsClient {
  const { key, timeoutMs = 10_000, retries = 3 } = options
  const { location } = globalThis as { location?: { readonly href: string } }
  const address = new URL(options.url, location?.href)
  const root = address.origin + address.pathname.replace(/\/+$/, '')

  async function ask(call: Call): Promise<Answer> {
    const { signal, nothing, isOnce, isEndless, waitMs = 0 } = call
    const url = urlOf(root + call.path, call.query)
    const init = initOf(call, key)
    let isRepeated = false
    for (let tried = 0; ; tried++) {
      signal?.throwIfAborted()
      try {
        const answer = await within(timeoutMs + waitMs, signal, stop =>
          send(url, { ...init, signal: stop }, call.fits),
        )
        return { ...answer, isRepeated }
      } catch (thrown) {
        signal?.throwIfAborted()
        const error = thrown instanceof UserRecordsError ? thrown : unreachable(thrown)
        const { status = 0, reason } = error
        if (reason === nothing)
          return { status, headers: new Headers(), body: undefined, isRepeated }
        const isUndone = hasDoneNothing(error)
        const pauseMs = pauseBeforeRetry(error, tried, isEndless)
        const mayRepeat = isEndless || (tried < retries && (isUndone || !isOnce))
        if (!mayRepeat || pauseMs === undefined) throw error
        isRepeated ||= !isUndone
        await pause(pauseMs, signal)
      }
    }
  }

  async function send(url: URL, init: RequestInit, fits: Call['fits'] = hasId) {
    const response = await fetchWithinOrigin(url, init)
    const { status, headers } = response
    const body = parse(await response.text())
    if (response.ok && fits(body, status)) return { status, headers, body }
    throw errorOf(response, body)
  }

  async function fetchWithinOrigin(first: URL, init: RequestInit): Promise<Response> {
    const request = options.fetch ?? globalThis.fetch
    for (let url = first, followed = 0; ; followed++) {
      const response = await request(url.href, { ...init, redirect: 'manual' })
      // Browsers hide where a redirect leads. This follows it if the page and all that it meets have one origin.
      if (response.type === 'opaqueredirect' && response.status === 0) {
        return request(url.href, { ...init, redirect: 'follow', mode: 'same-origin' })
      }
      const target = redirectOf(response, url, init.method)
      if (target?.origin !== first.origin || followed === MAX_REDIRECTS) return response
      await response.body?.cancel?.()
      url = target
    }
  }

  async function page(query: UserQuery, { signal }: CallOptions): Promise<UserPage> {
    const call = { method: 'GET', path: '/users', query, fits: Array.isArray, signal }
    const { body, headers } = await ask(call)
    const total = headers.get('X-Total-Count')
    const [, next] = /<([^>]*)>; rel="next"/.exec(headers.get('Link') ?? '') ?? []
    return {
      data: body,
      total: total === null ? undefined : Number(total),
      next: (next && new URL(next, root).searchParams.get('after')) || undefined,
    }
  }

  return {
    async create(user, { signal, idempotencyKey = randomKey() } = {}) {
      const headers = { 'Idempotency-Key': idempotencyKey }
      return (await ask({ method: 'POST', path: '/users', body: { user }, headers, signal })).body
    },

    createMany: (users, { signal } = {}) =>
      inHundreds(users, async hundred => {
        const body = { users: hundred }
        const call = { method: 'POST', path: '/users', body, fits: hasData, isOnce: true, signal }
        return (await ask(call)).body.data
      }),

    async read(id, { signal } = {}) {
      return (await ask({ method: 'GET', path: pathOf(id), nothing: 'user_not_found', signal }))
        .body
    },

    async version(id, { signal } = {}) {
      const call = { method: 'GET', path: pathOf(id), nothing: 'user_not_found', signal } as const
      return (await ask(call)).headers.get('ETag') ?? undefined
    },

    async update(id, user, { signal, ifMatch } = {}) {
      const isOnce = ifMatch !== undefined
      const headers = isOnce ? { 'If-Match': ifMatch } : {}
      const call = { method: 'PUT', path: pathOf(id), body: { user }, headers, isOnce, signal }
      return (await ask(call)).body
    },

    async delete(id, { signal } = {}) {
      const call = {
        method: 'DELETE',
        path: pathOf(id),
        fits: (_: unknown, status: number) => status === 204,
        nothing: 'user_not_found',
        signal,
      } as const
      const { status, isRepeated } = await ask(call)
      return status === 204 || isRepeated
    },

    deleteMany: (ids, { signal } = {}) =>
      inHundreds([...new Set(ids)], async hundred => {
        const query = { id: hundred }
        const call = { method: 'DELETE', path: '/users', query, fits: hasData, signal }
        const { body, isRepeated } = await ask(call)
        const entries: readonly DeletedEntry[] = body.data
        return entries.map(({ id, status }) => ({ id, status: isRepeated ? 204 : status }))
      }),

    async *list(filter = {}, options = {}) {
      for (let { after } = filter; ; ) {
        const { data, next } = await page({ ...filter, after }, options)
        yield* data
        if (next === undefined) return
        after = next
      }
    },

    page: (query = {}, options = {}) => page({ count: true, ...query }, options),

    async verify(user, { signal } = {}) {
      const path = '/password-verifications'
      const call = {
        method: 'POST',
        path,
        body: { user },
        nothing: 'wrong_credentials',
        signal,
      } as const
      return (await ask(call)).body
    },

    async *changes({ after, limit = 1000 } = {}, { signal } = {}) {
      for (let cursor = after, reset = false; ; ) {
        // The beginning comes at once, even if there is nobody.
        const wait = cursor === undefined ? 0 : WAIT_SECONDS
        const askedAt = performance.now()
        const { body } = await ask({
          method: 'GET',
          path: '/users/changes',
          query: { after: cursor, limit, wait },
          fits: body => hasData(body) && typeof body.next === 'string',
          nothing: cursor === undefined ? undefined : 'cursor_expired',
          isEndless: true,
          waitMs: wait * 1000,
          signal,
        })
        if (body !== undefined && (reset || body.data.length > 0)) {
          yield { data: body.data, next: body.next, reset }
        } else if (body !== undefined && wait > 0 && performance.now() - askedAt < SOON_MS) {
          await pause(withJitter(SOON_MS), signal)
        }
        reset = body === undefined
        cursor = body?.next
      }
    },
  }
}

function hasId(body: Answer['body']): boolean {
  return typeof body?.id === 'number'
}

function hasData(body: Answer['body']): boolean {
  return Array.isArray(body?.data)
}

function pathOf(id: number): string {
  return `/users/${encodeURIComponent(id)}`
}

function urlOf(path: string, query: object = {}): URL {
  const url = new URL(path)
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  return url
}

function initOf({ method, body, headers }: Call, key: string | undefined): RequestInit {
  return {
    method,
    headers: {
      Accept: 'application/json',
      ...(key !== undefined && { Authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }
}

/** Where the answer leads, if the same request may be made there. */
function redirectOf({ status, headers }: Response, from: URL, method: string | undefined) {
  const isKept = status === 307 || status === 308
  const isFollowed = isKept || (method === 'GET' && status >= 301 && status <= 303)
  const target = isFollowed && headers.get('Location')
  return target ? new URL(target, from) : undefined
}

/** An object or an array; `undefined` for any other text. */
function parse(text: string): object | undefined {
  try {
    const value = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

function errorOf(response: Response, body: object = {}): UserRecordsError {
  const { status, headers } = response
  const { message, reason, errors } = body as Partial<UserRecordsError>
  const location = headers.get('Location')
  const answered = `The answer is ${status}${location === null ? '' : `, a redirect to ${location}`}`
  return new UserRecordsError(message ?? answered, {
    status,
    reason: reason ?? 'unexpected_answer',
    errors,
    requestId: headers.get('X-Request-Id') ?? undefined,
    retryAfterMs: parseRetryAfter(headers.get('Retry-After')),
  })
}

function unreachable(cause: unknown): UserRecordsError {
  const why = cause instanceof Error ? `: ${cause.message}` : ''
  return new UserRecordsError(`The service cannot be reached${why}`, { cause })
}

/** Seconds or a date (RFC 9110 10.2.3), in milliseconds from now. */
function parseRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** Whether the service itself says so. */
function hasDoneNothing({ status, reason }: UserRecordsError): boolean {
  const isOfService = reason !== 'unexpected_answer' && reason !== 'outcome_unknown'
  return status === 409 || status === 429 || (status === 503 && isOfService)
}

/** Milliseconds; `undefined` for an error that stays. */
function pauseBeforeRetry(
  { status, reason, retryAfterMs }: UserRecordsError,
  tried: number,
  isEndless = false,
): number | undefined {
  const isOverload = status === 429 && (isEndless || retryAfterMs !== undefined)
  const isAway = status === undefined || (status >= 502 && status <= 504)
  if (!isOverload && !isAway && reason !== 'idempotency_key_in_use') return undefined
  if (retryAfterMs === undefined)
    return withJitter(Math.min(FIRST_PAUSE_MS * 2 ** tried, MAX_PAUSE_MS))
  return isEndless || retryAfterMs <= MAX_RETRY_AFTER_MS
    ? retryAfterMs + withJitter(100)
    : undefined
}

/** Half of it to all of it. */
function withJitter(ms: number): number {
  return ms * (1 - Math.random() / 2)
}

/** What `work` gives. Rejects at once when `signal` is aborted or the time is over, whatever `work` does then. */
function within<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (stop: AbortSignal) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const controller = new AbortController()
    const timer = setTimeout(
      () => stop(new DOMException(`No answer in ${ms} ms`, 'TimeoutError')),
      Math.min(ms, MAX_TIMER_MS),
    )
    const abort = () => stop(signal?.reason)
    signal?.addEventListener('abort', abort)
    work(controller.signal).then(resolve, reject).finally(release)

    function stop(reason: unknown): void {
      release()
      reject(reason)
      controller.abort(reason)
    }

    function release(): void {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  })
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return within(
    MAX_TIMER_MS,
    signal,
    stop =>
      new Promise(resolve => {
        const timer = setTimeout(resolve, Math.min(ms, MAX_TIMER_MS))
        stop.addEventListener('abort', () => clearTimeout(timer))
      }),
  )
}

/** 128 random bits. Not `randomUUID`, which pages without TLS lack. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join('')
}

/** Each hundred with `request`, one after the other. An error has the entries before it. */
async function inHundreds<T, E extends CreatedEntry | DeletedEntry>(
  items: readonly T[],
  request: (hundred: readonly T[]) => Promise<readonly E[]>,
): Promise<E[]> {
  const entries: E[] = []
  try {
    for (const hundred of hundredsOf(items)) entries.push(...(await request(hundred)))
    return entries
  } catch (error) {
    throw error instanceof UserRecordsError ? Object.assign(error, { entries }) : error
  }
}

function* hundredsOf<T>(items: readonly T[]): Generator<readonly T[]> {
  let hundred: T[] = []
  let bytes = 0
  for (const item of items) {
    const size = new TextEncoder().encode(JSON.stringify(item)).length + 1
    if (
      hundred.length === MAX_ENTRIES ||
      (hundred.length > 0 && bytes + size > MAX_ENTRIES_BYTES)
    ) {
      yield hundred
      hundred = []
      bytes = 0
    }
    hundred.push(item)
    bytes += size
  }
  if (hundred.length > 0) yield hundred
}
