import type { ServiceStatus } from '../../src/ops/management/service-status.ts'

const TOKEN = 'management-token'

/** The token of this tab; `undefined` if none was given. */
export function readToken(): string | undefined {
  return sessionStorage.getItem(TOKEN) ?? undefined
}

export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN, token)
}

export function forgetToken(): void {
  sessionStorage.removeItem(TOKEN)
}

/** A ban in force, as `GET /bans` answers. */
export interface Ban {
  readonly rule: string
  readonly client: string
  readonly ends_at: string
}

export interface BanPage {
  readonly bans: readonly Ban[]
  /** Where the next page is. */
  readonly next: string | undefined
}

/** An answer that is no success, or not what was asked for. */
export class Refusal extends Error {
  readonly status: number
  /** In a few words, for the head of the page. */
  readonly reason: string
  /** Messages by field. */
  readonly errors: Readonly<Record<string, readonly string[]>>

  constructor(status: number, body: unknown) {
    const { message, errors } = (body ?? {}) as Partial<Pick<Refusal, 'message' | 'errors'>>
    super(message ?? `The service answered ${status}`)
    this.status = status
    this.reason = status === 200 ? 'No status in the answer' : `Answers ${status}`
    this.errors = errors ?? {}
  }
}

/** Whether the service has refused a request for lack of a token. */
export function needsToken(error: unknown): boolean {
  return error instanceof Refusal && error.status === 401
}

/** What went wrong with a request, in words. */
export function explain(error: unknown): string {
  if (!(error instanceof Refusal)) return 'The service cannot be reached.'
  return needsToken(error) ? 'The service asks for a token.' : error.message
}

/** Longer than a busy service needs. */
const PATIENCE_MS = 10_000

const BANS_PER_PAGE = 15

/** The status, with the samples of the last 15 minutes or only those after `since`. */
export async function fetchStatus(since: string | undefined): Promise<ServiceStatus> {
  const query = since === undefined ? '' : `?${new URLSearchParams({ since })}`
  const { body } = await ask('GET', `status${query}`)
  const status = body as Partial<ServiceStatus> | null
  // A proxy may answer anything with 200.
  if (!Array.isArray(status?.history?.samples)) throw new Refusal(200, undefined)
  return body as ServiceStatus
}

/** A page of bans: the one at `next` of another page, or the first one. */
export async function fetchBans(client: string, next?: string): Promise<BanPage> {
  const query = new URLSearchParams({ per_page: `${BANS_PER_PAGE}`, ...(client && { client }) })
  const { body, link } = await ask('GET', next ?? `bans?${query}`)
  return { bans: body as readonly Ban[], next: nextOf(link) }
}

export async function addBan(order: { rule: string; client: string; for?: string }): Promise<Ban> {
  const { body } = await ask('POST', 'bans', { ban: order })
  return body as Ban
}

/** Whether the ban was still in force. */
export async function liftBan({ rule, client }: Ban): Promise<boolean> {
  const { body } = await ask('DELETE', `bans?${new URLSearchParams({ rule, client })}`)
  return (body as { lifted: number }).lifted > 0
}

/** What `POST /limits/reload` answers; rules by kind and name. */
export interface Reloaded {
  readonly reloaded: boolean
  readonly message?: string
  readonly came?: readonly string[]
  readonly went?: readonly string[]
  readonly changed?: readonly string[]
}

/** Puts the limits file in force again. Throws a `Refusal` if it is wrong. */
export async function reloadLimits(): Promise<Reloaded> {
  const { body } = await ask('POST', 'limits/reload')
  return body as Reloaded
}

async function ask(method: string, path: string, sent?: unknown) {
  const token = readToken()
  const response = await fetch(path, {
    method,
    cache: 'no-store',
    signal: AbortSignal.timeout(PATIENCE_MS),
    headers: {
      Accept: 'application/json',
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(method === 'POST' && { 'Content-Type': 'application/json' }),
    },
    ...(method === 'POST' && { body: JSON.stringify(sent ?? {}) }),
  })
  const body: unknown = await response.json().catch(() => undefined)
  if (!response.ok || body === undefined) throw new Refusal(response.status, body)
  return { body, link: response.headers.get('Link') }
}

/** The target of the relation `next` in a Link header, relative to this page. */
function nextOf(link: string | null): string | undefined {
  const member = link?.split(/,\s*(?=<)/).find(text => /;\s*rel="?next"?/.test(text))
  return /^<\/?([^>]*)>/.exec(member ?? '')?.[1]
}
