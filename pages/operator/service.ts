import type { jsonOf } from '../../src/limits/ban-store.ts'
import type { RuleChanges } from '../../src/limits/kinds/limiter.ts'
import type { ServiceStatus } from '../../src/ops/management/service-status.ts'

const TOKEN = 'management-token'

/** The token of this tab; `undefined` if none was given. */
export const readToken = () => sessionStorage.getItem(TOKEN) ?? undefined
export const keepToken = (token: string) => sessionStorage.setItem(TOKEN, token)
export const forgetToken = () => sessionStorage.removeItem(TOKEN)

/** A ban in force, as `GET /bans` answers. */
export type Ban = ReturnType<typeof jsonOf>

/** Messages by field. */
export type Errors = Readonly<Record<string, readonly string[]>>

/** An answer that is no success, or not what was asked for; its message says so in words. */
export class Refusal extends Error {
  readonly status: number
  /** In a few words, for the head of the page. */
  readonly reason: string
  readonly details: readonly string[]
  /** What is wrong with each field; the message under `''` if nothing is. */
  readonly errors: Errors

  /** A `status` of 0 stands for a service that did not answer. */
  constructor(status: number, body?: { message?: string; errors?: Errors } | null) {
    super(WORDS[status]?.message ?? body?.message ?? `The service answered ${status}`)
    this.status = status
    this.reason = WORDS[status]?.reason ?? `Answers ${status}`
    this.details = Object.values(body?.errors ?? {}).flat()
    this.errors = (this.details.length > 0 && body?.errors) || { '': [this.message] }
  }
}

const WORDS: Readonly<Record<number, { reason?: string; message?: string }>> = {
  0: { reason: 'Unreachable', message: 'The service cannot be reached.' },
  200: { reason: 'No status in the answer' },
  401: { message: 'The service asks for a token.' },
}

/** What went wrong with a request. */
export function refusalOf(error: unknown): Refusal {
  return error instanceof Refusal ? error : new Refusal(0)
}

/** Longer than a busy service needs. */
const PATIENCE_MS = 10_000

/** The most that the service lists at once, so that of as many the page shows the first in its own order. */
const MAX_BANS = 1000

/** The status, with the samples of the last 15 minutes or only those after `since`. */
export async function fetchStatus(since: string | undefined): Promise<ServiceStatus> {
  const query = since === undefined ? '' : `?${new URLSearchParams({ since })}`
  const status = (await ask('GET', `status${query}`)) as ServiceStatus | null
  // A proxy may answer anything with 200.
  if (!Array.isArray(status?.history?.samples)) throw new Refusal(200)
  return status
}

/** The first bans in force, all or those of clients that contain a text. */
export async function fetchBans(contains: string): Promise<readonly Ban[]> {
  const query = new URLSearchParams({ per_page: `${MAX_BANS}`, ...(contains && { contains }) })
  return (await ask('GET', `bans?${query}`)) as readonly Ban[]
}

export async function addBan(order: { rule: string; client: string; for?: string }): Promise<Ban> {
  return (await ask('POST', 'bans', { ban: order })) as Ban
}

/** Lifts all bans of a rule, or only that of one client. Returns how many were in force. */
export async function liftBans(rule: string, client?: string): Promise<number> {
  const query = new URLSearchParams({ rule, ...(client !== undefined && { client }) })
  return ((await ask('DELETE', `bans?${query}`)) as { lifted: number }).lifted
}

/** What `POST /limits/reload` answers; rules by kind and name. */
export interface Reloaded extends Partial<RuleChanges> {
  readonly reloaded: boolean
  readonly message?: string
}

/** Puts the limits file in force again. Throws a `Refusal` if it is wrong. */
export async function reloadLimits(): Promise<Reloaded> {
  return (await ask('POST', 'limits/reload', {})) as Reloaded
}

async function ask(method: string, path: string, sent?: unknown): Promise<unknown> {
  return (await request(method, path, { sent })).body
}

export interface RequestOptions {
  /** The body, if there is one. */
  readonly sent?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** How long the service may hold the request. */
  readonly waitMs?: number
}

/** What the service answers. Throws a `Refusal` for anything but a success with JSON, or without content. */
export async function request(
  method: string,
  path: string,
  { sent, headers, signal, waitMs = 0 }: RequestOptions = {},
): Promise<{ readonly body: unknown; readonly headers: Headers }> {
  const token = readToken()
  const patience = AbortSignal.timeout(PATIENCE_MS + waitMs)
  const response = await fetch(path, {
    method,
    cache: 'no-store',
    signal: signal === undefined ? patience : AbortSignal.any([signal, patience]),
    headers: {
      Accept: 'application/json',
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(sent !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(sent !== undefined && { body: JSON.stringify(sent) }),
  })
  const body = await response.json().catch(() => undefined)
  const isEmpty = body === undefined && response.status !== 204
  if (!response.ok || isEmpty) throw new Refusal(response.status, body)
  return { body, headers: response.headers }
}
