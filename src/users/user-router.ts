import type { Request, Router } from 'express'
import { kindOf, ServiceError } from '../errors.ts'
import { messagesByField } from '../http/error-handler.ts'
import { mountPath } from '../http/forwarded.ts'
import {
  entityTag,
  matchesIfMatch,
  matchesIfNoneMatch,
  parseIdempotencyKey,
  preconditionOf,
  prefersStrictHandling,
} from '../http/headers.ts'
import { askedInsteadOfJson, JSON_TYPE } from '../http/negotiation.ts'
import { pageLink, type QueryParameter, queryParameters } from '../http/query.ts'
import type { Reply } from '../http/reply.ts'
import { accept, acceptJson, createRouter, type RouteParts } from '../http/router.ts'
import type { StreamReply } from '../http/stream.ts'
import { type ChangeFeed, EVENT_STREAM_TYPE } from './change-feed.ts'
import { parseDeletion } from './list-query.ts'
import { attributesIn, isBatch, splitBatch } from './user-body.ts'
import { type UserList, WHOLE_LIST_FORMS } from './user-lists.ts'
import type { StoredUser } from './user-repository.ts'
import type { Created, UserService } from './user-service.ts'
import { splitLogin } from './verification.ts'

export interface UserRouterOptions {
  readonly users: UserService
  readonly changes: ChangeFeed
  /** Whether it has the route that verifies passwords. It has, if left out. */
  readonly canVerify?: boolean
}

/** The routes of users: they turn requests into values for the service, and its values into replies. */
export function createUserRouter(
  { users, changes, canVerify = true }: UserRouterOptions,
  parts: RouteParts,
): Router {
  const { admit, limitByBody, readBody, answer, otherMethods } = parts

  async function list(request: Request): Promise<Reply | StreamReply> {
    const parameters = queryParameters(request.url)
    const form = askedInsteadOfJson(WHOLE_LIST_FORMS, request.headers.accept)
    if (form !== undefined) {
      return { type: form.type, headers: form.headers, write: users.whole.open(parameters, form) }
    }
    const { revision, list } = await users.list(parameters, known => isFresh(request, known))
    return list === undefined
      ? notModified(revision)
      : listReply(list, parameters, mountPath(request))
  }

  async function create(request: Request, isStrict: boolean): Promise<Reply> {
    if (isBatch(request.body)) return createMany(request, isStrict)
    const key = parseIdempotencyKey(request.headers['idempotency-key'])
    const { user, isReplay } = await users.create(request.body, { key, isStrict })
    request.line = { ...request.line, user: user.id, fields: attributesIn(request.body) }
    return userReply(201, user, {
      Location: `${mountPath(request)}/users/${user.id}`,
      ...(isReplay && { 'Idempotency-Replayed': 'true' }),
    })
  }

  async function createMany(request: Request, isStrict: boolean): Promise<Reply> {
    if (request.headers['idempotency-key'] !== undefined) {
      throw new ServiceError('idempotency_key_malformed', { message: KEY_OF_MANY })
    }
    const entries = await users.createMany(request.body, { isStrict })
    const made = entries.filter(entry => !(entry instanceof ServiceError)).length
    request.line = { ...request.line, users: made }
    return { status: 200, body: `{"data":[${entries.map(entryJson)}]}` }
  }

  async function read(request: Request): Promise<Reply> {
    const user = await users.read(idInPath(request))
    const isUnmodified = isFresh(request, user.version)
    request.line = { ...request.line, user: user.id }
    return isUnmodified ? notModified(user.version) : userReply(200, user)
  }

  async function update(request: Request, isStrict: boolean): Promise<Reply> {
    const precondition = preconditionOf(request.headers)
    const options = { precondition, isStrict }
    const user = await users.update(idInPath(request), request.body, options)
    request.line = { ...request.line, user: user.id, fields: attributesIn(request.body) }
    return userReply(200, user)
  }

  async function remove(request: Request): Promise<Reply> {
    const user = idInPath(request)
    await users.delete(user, preconditionOf(request.headers))
    request.line = { ...request.line, user }
    return { status: 204 }
  }

  async function removeMany(request: Request): Promise<Reply> {
    const { headers, url } = request
    const conditions = CONDITIONS.filter(name => headers[name] !== undefined)
    if (conditions.length > 0) {
      const errors = conditions.map(field => ({ field, messages: ['is for one user'] }))
      throw new ServiceError('query_invalid', { errors })
    }
    const entries = await users.deleteMany(queryParameters(url))
    const deleted = entries.filter(({ status }) => status === 204).length
    request.line = { ...request.line, users: deleted }
    const data = entries.map(({ id, status }) => `{"id":${id},"status":${status}}`)
    return { status: 200, body: `{"data":[${data}]}` }
  }

  /** Without an ETag: the response is the result of the verification, and not the state of its path. */
  async function verify(request: Request): Promise<Reply> {
    const user = await users.verify(request.body)
    request.line = { ...request.line, user: user.id }
    return { status: 200, body: user.json }
  }

  const change = [
    ...admit('update'),
    acceptJson,
    readBody,
    ...limitByBody('update'),
    answer(asPreferred(update)),
  ]
  const router = createRouter()
  router
    .route('/users')
    .get(
      admit('list'),
      accept(JSON_TYPE, ...WHOLE_LIST_FORMS.map(({ type }) => type)),
      answer(list),
    )
    .post(
      admit('create'),
      acceptJson,
      readBody,
      limitByBody('create', ({ body }) => splitBatch(body)),
      answer(asPreferred(create)),
    )
    .delete(admit('delete'), limitByBody('delete', splitIds), answer(removeMany))
    .all(otherMethods)
  router
    .route('/users/changes')
    .get(
      admit('list'),
      accept(JSON_TYPE, EVENT_STREAM_TYPE),
      answer(request => changes.answer(request)),
    )
    .all(otherMethods)
  router
    .route('/users/:id')
    .get(admit('read'), acceptJson, answer(read))
    .put(change)
    .patch(change)
    .delete(admit('delete'), answer(remove))
    .all(otherMethods)
  if (!canVerify) return router
  router
    .route('/password-verifications')
    .post(
      admit('verify'),
      acceptJson,
      readBody,
      limitByBody('verify', ({ body }) => splitLogin(body)),
      answer(verify),
    )
    .all(otherMethods)
  return router
}

const KEY_OF_MANY = 'Idempotency-Key is for one user, and cannot be sent with users'

const CONDITIONS = ['if-match', 'if-none-match'] as const

/** For limits: the users that a request deletes, which have no bodies. */
function splitIds({ url }: Request): readonly undefined[] | undefined {
  try {
    return parseDeletion(queryParameters(url)).map(() => undefined)
  } catch {
    return undefined
  }
}

const STRICT_APPLIED = { 'Preference-Applied': 'handling=strict' }

type Handle = (request: Request, isStrict: boolean) => Promise<Reply>

/** Obeys `Prefer: handling=strict`, and says so in the reply, also to a wrong body. */
function asPreferred(handle: Handle): (request: Request) => Promise<Reply> {
  const handleStrictly = async (request: Request): Promise<Reply> => {
    try {
      const reply = await handle(request, true)
      const { headers } = reply
      // The body of a replay was judged when the user was made.
      const isReplay = headers !== undefined && 'Idempotency-Replayed' in headers
      return isReplay ? reply : { ...reply, headers: { ...headers, ...STRICT_APPLIED } }
    } catch (error) {
      if (!(error instanceof ServiceError) || error.details.errors === undefined) throw error
      throw new ServiceError(error.code, { ...error.details, headers: STRICT_APPLIED })
    }
  }
  return request =>
    prefersStrictHandling(request.headers.prefer) ? handleStrictly(request) : handle(request, false)
}

/** Whether the client has the version. Throws `version_mismatch` if If-Match does not allow it. */
function isFresh({ headers }: Request, version: string): boolean {
  if (!matchesIfMatch(headers['if-match'], version)) throw new ServiceError('version_mismatch')
  return matchesIfNoneMatch(headers['if-none-match'], version)
}

function userReply(status: number, user: StoredUser, headers: Record<string, string> = {}): Reply {
  return { status, headers: { ETag: entityTag(user.version), ...headers }, body: user.json }
}

/** An entry of a batch as clients see it. */
function entryJson(entry: Created): string {
  if (!(entry instanceof ServiceError)) return `{"status":201,"user":${entry.json}}`
  const { status, code: reason, details } = entry
  const { message } = kindOf(reason)
  return JSON.stringify({ status, message, reason, errors: messagesByField(details.errors ?? []) })
}

function notModified(version: string): Reply {
  return { status: 304, headers: { ETag: entityTag(version) } }
}

function listReply(list: UserList, parameters: readonly QueryParameter[], mount: string): Reply {
  const { request, page } = list
  const link = linkHeader(list, parameters, mount)
  return {
    status: 200,
    headers: {
      ETag: entityTag(page.revision),
      ...(link !== '' && { Link: link }),
      ...(page.total !== undefined && { 'X-Total-Count': String(page.total) }),
    },
    body: request.envelope ? envelope(list) : page.json,
  }
}

function envelope({ request, page }: UserList): string {
  const fields = {
    page: request.page,
    has_more: page.next !== undefined,
    total_count: page.total,
  }
  return `{"data":${page.json},${JSON.stringify(fields).slice(1)}`
}

function linkHeader(
  { request, nextCursor }: UserList,
  parameters: readonly QueryParameter[],
  mount: string,
): string {
  const link = (relation: string, name: string, value: string) =>
    pageLink(`${mount}/users`, parameters, { relation, name, value })

  const isNumbered = parameters.some(({ name }) => name === 'page')
  const { page = 1 } = request
  return [
    nextCursor !== undefined && link('next', 'after', nextCursor),
    isNumbered && link('first', 'page', '1'),
    isNumbered && page > 1 && link('prev', 'page', String(page - 1)),
  ]
    .filter(part => part !== false)
    .join(', ')
}

/** The id in the path; `undefined` for anything but a positive integer in plain decimal. */
function idInPath(request: Request): number | undefined {
  const text = String(request.params.id)
  const id = Number(text)
  return /^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(id) ? id : undefined
}
