import type { Request } from 'express'
import { entityTag, matchesIfNoneMatch, parseIfMatch } from '../http/conditional-requests.ts'
import type { Endpoint } from '../http/endpoints.ts'
import { parseIdempotencyKey } from '../http/idempotency-key.ts'
import { type QueryParameter, queryParameters, queryString } from '../http/query-string.ts'
import type { Reply } from '../http/reply.ts'
import type { UserList } from './user-lists.ts'
import { userOperations } from './user-openapi.ts'
import type { StoredUser } from './user-repository.ts'
import type { UserRules } from './user-schemas.ts'
import type { UserService } from './user-service.ts'

/** The endpoints of users: turn requests into values for the service, and its values into replies. */
export function userRoutes(users: UserService, rules: UserRules): readonly Endpoint[] {
  let described: ReturnType<typeof userOperations> | undefined
  const operations = () => {
    described ??= userOperations(rules)
    return described
  }

  async function list(request: Request): Promise<Reply> {
    const parameters = queryParameters(request.url)
    const ifNoneMatch = request.headers['if-none-match']
    const { revision, list } = await users.list(parameters, known =>
      matchesIfNoneMatch(ifNoneMatch, known),
    )
    return list === undefined ? notModified(revision) : listReply(list, parameters, request.baseUrl)
  }

  async function create(request: Request): Promise<Reply> {
    const key = parseIdempotencyKey(request.headers['idempotency-key'])
    const { user, isReplay } = await users.create(request.body, key)
    return userReply(201, user, {
      Location: `${request.baseUrl}/users/${user.id}`,
      ...(isReplay && { 'Idempotency-Replayed': 'true' }),
    })
  }

  async function read(request: Request): Promise<Reply> {
    const user = await users.read(idOf(request))
    const isFresh = matchesIfNoneMatch(request.headers['if-none-match'], user.version)
    return isFresh ? notModified(user.version) : userReply(200, user)
  }

  async function update(request: Request): Promise<Reply> {
    const expected = parseIfMatch(request.headers['if-match'])
    return userReply(200, await users.update(idOf(request), request.body, expected))
  }

  async function remove(request: Request): Promise<Reply> {
    await users.delete(idOf(request), parseIfMatch(request.headers['if-match']))
    return { status: 204 }
  }

  const oneUser = '/users/{id}'
  return [
    {
      method: 'get',
      path: '/users',
      resource: 'User',
      action: 'list',
      operation: () => operations().list,
      handle: list,
    },
    {
      method: 'post',
      path: '/users',
      resource: 'User',
      action: 'create',
      takesBody: true,
      operation: () => operations().create,
      handle: create,
    },
    {
      method: 'get',
      path: oneUser,
      resource: 'User',
      action: 'read',
      operation: () => operations().read,
      handle: read,
    },
    {
      method: 'put',
      path: oneUser,
      resource: 'User',
      action: 'update',
      takesBody: true,
      operation: () => operations().update,
      handle: update,
    },
    {
      method: 'patch',
      path: oneUser,
      resource: 'User',
      action: 'update',
      takesBody: true,
      operation: () => operations().patch,
      handle: update,
    },
    {
      method: 'delete',
      path: oneUser,
      resource: 'User',
      action: 'delete',
      produces: [],
      operation: () => operations().remove,
      handle: remove,
    },
  ]
}

function userReply(status: number, user: StoredUser, headers: Record<string, string> = {}): Reply {
  return { status, headers: { ETag: entityTag(user.version), ...headers }, body: user.json }
}

function notModified(version: string): Reply {
  return { status: 304, headers: { ETag: entityTag(version) } }
}

function listReply(list: UserList, parameters: readonly QueryParameter[], baseUrl: string): Reply {
  const { request, page } = list
  const link = linkHeader(list, parameters, baseUrl)
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

/**
 * RFC 8288. Targets are relative to the origin, because behind a proxy the service does not know its origin. `baseUrl` is
 * the path under which another application has mounted this one, or empty.
 */
function linkHeader(
  { request, nextCursor }: UserList,
  parameters: readonly QueryParameter[],
  baseUrl: string,
): string {
  const kept = parameters
    .filter(({ name }) => name !== 'page' && name !== 'after')
    .map(({ name, value = '' }) => ({ name, value }))
  const link = (relation: string, name: string, value: string) =>
    `<${baseUrl}/users?${queryString([...kept, { name, value }])}>; rel="${relation}"`

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
function idOf(request: Request): number | undefined {
  const text = String(request.params.id)
  const id = Number(text)
  return /^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(id) ? id : undefined
}
