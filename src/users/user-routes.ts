import type { Request } from 'express'
import type { Endpoint } from '../http/endpoints.ts'
import type { Reply } from '../http/reply.ts'
import type { StoredUser } from './user-repository.ts'
import type { UserService } from './user-service.ts'

/** The HTTP interface of the service: values in, values out. */
export function userRoutes(users: UserService): readonly Endpoint[] {
  const update = async (request: Request) =>
    representation(200, await users.update(idOf(request), request.body))

  return [
    {
      method: 'get',
      path: '/users',
      action: 'list',
      handle: async () => ({ status: 200, body: await users.list() }),
    },
    {
      method: 'post',
      path: '/users',
      action: 'create',
      takesBody: true,
      handle: async request => {
        const user = await users.create(request.body)
        return representation(201, user, { Location: `/users/${user.id}` })
      },
    },
    {
      method: 'get',
      path: '/users/{id}',
      action: 'read',
      handle: async request => representation(200, await users.read(idOf(request))),
    },
    { method: 'put', path: '/users/{id}', action: 'update', takesBody: true, handle: update },
    { method: 'patch', path: '/users/{id}', action: 'update', takesBody: true, handle: update },
    {
      method: 'delete',
      path: '/users/{id}',
      action: 'delete',
      produces: [],
      handle: async request => {
        await users.delete(idOf(request))
        return { status: 204 }
      },
    },
  ]
}

function representation(
  status: number,
  user: StoredUser,
  headers: Record<string, string> = {},
): Reply {
  return { status, headers, body: user.json }
}

/** The id in the path; anything but a positive integer in plain decimal names no user. */
function idOf(request: Request): number | undefined {
  const text = String(request.params.id)
  const id = Number(text)
  return /^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(id) ? id : undefined
}
