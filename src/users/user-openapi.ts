import { z } from 'zod'
import { JSON_TYPE } from '../http/negotiation.ts'
import { ETAG, header, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH } from '../http/openapi/headers.ts'
import type { Answer, DescribedOperation } from '../http/openapi/operation.ts'
import { listParameters } from './list-query.ts'
import { bodyOf, type UserRules } from './user-schemas.ts'

const USERS = {
  name: 'Users',
  description: 'Create, list, read, change and delete users, and verify their passwords.',
}

const ANN = {
  id: 1,
  name: 'Ann',
  email: 'ann@example.com',
  created_at: '2026-01-31T12:00:00.000Z',
  updated_at: '2026-01-31T12:00:00.000Z',
}

const LOGIN = { email: ANN.email, password: 'correct horse battery staple' }

const TIME = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  .meta({ format: 'date-time' })

const USER = z
  .strictObject({
    id: z.int().min(1).describe('Later users have larger ids. An id is never used again.'),
    name: z.string().describe('Normalised to NFC.'),
    email: z.string().describe('Unique without regard to case.'),
    created_at: TIME.meta({ description: 'In UTC.' }),
    updated_at: TIME.meta({ description: 'Later with each change, even if the clock goes back.' }),
  })
  .meta({ id: 'User', description: 'A user. The password is never shown.' })

const USER_LIST = z.array(USER).meta({ id: 'UserList', description: 'A page of users.' })

const USER_PAGE = z
  .object({
    data: USER_LIST,
    page: z.int().min(1).optional().describe('Absent if the request has a cursor.'),
    has_more: z.boolean().describe('Whether there are users after these.'),
    total_count: z.int().min(0).optional().describe('With `count=true`.'),
  })
  .meta({
    id: 'UserPage',
    description: 'A page of users in an object: with `envelope=true`.',
  })

const USER_CONTENT = { [JSON_TYPE]: { schema: USER, example: ANN } }

const ID = z
  .int()
  .min(1)
  .meta({
    param: {
      id: 'UserId',
      name: 'id',
      in: 'path',
      description: 'A positive integer in plain decimal; anything else is 404.',
      example: 1,
    },
  })

const LIST_HEADERS = {
  ETag: ETAG,
  Link: header(z.string().optional(), {
    id: 'Link',
    description:
      'RFC 8288, with relative targets: `next` if there are more users, `first` and `prev` if `page` was sent.',
  }),
  'X-Total-Count': header(z.int().min(0).optional(), {
    id: 'XTotalCount',
    description: 'Number of users that match the filters: with `count=true`.',
  }),
}

const CREATE_HEADERS = {
  ETag: ETAG,
  Location: header(z.string(), { id: 'Location', description: 'The path of the user.' }),
  'Idempotency-Replayed': header(z.literal('true').optional(), {
    id: 'IdempotencyReplayed',
    description: 'An earlier request with this `Idempotency-Key` created the user.',
  }),
}

const KEY_REFUSALS = [
  'idempotency_key_malformed',
  'idempotency_key_in_use',
  'idempotent_user_deleted',
  'idempotency_key_reused',
] as const

/** The outcome of a write may stay unknown. */
const UNKNOWN = 'outcome_unknown'

/** By id. */
export type UserOperations = ReturnType<typeof describeUserOperations>

/** What requests for users take and answer. In the order of the document, so that its examples work from top to bottom. */
export function describeUserOperations({ schemas }: UserRules) {
  const update = {
    path: '/users/{id}',
    action: 'update',
    tag: USERS,
    summary: 'Change a user',
    description:
      'Changes the fields that are sent; PUT and PATCH do the same. If all values are the same, ' +
      '`updated_at` stays. With `If-Match`, only if the user still has one of these versions.',
    parameters: [ID, IF_MATCH],
    body: {
      description:
        'The fields to change; `null` removes the password. Other attributes are ignored.',
      schema: bodySchema('UserChange', schemas.change),
      example: { user: { name: 'Bea' } },
    },
    answers: { 200: answerWithUser('The user after the change.') },
    refusals: ['validation_failed', 'email_taken', 'user_not_found', 'version_mismatch', UNKNOWN],
  } as const

  return {
    listUsers: {
      id: 'listUsers',
      method: 'get',
      path: '/users',
      action: 'list',
      tag: USERS,
      summary: 'List users',
      description:
        'A page of users. To read all, follow `rel="next"` of `Link`: each page costs the same, and a user that ' +
        'exists all the time comes exactly once, whatever changes meanwhile.',
      query: listParameters,
      parameters: [IF_NONE_MATCH],
      answers: {
        200: {
          description: 'The users; in an object with `envelope=true`.',
          headers: LIST_HEADERS,
          content: { [JSON_TYPE]: { schema: z.union([USER_LIST, USER_PAGE]), example: [ANN] } },
        },
        304: { description: 'No user has changed since.', headers: { ETag: ETAG } },
      },
      refusals: ['query_invalid', 'words_unavailable'],
    },
    createUser: {
      id: 'createUser',
      method: 'post',
      path: '/users',
      action: 'create',
      tag: USERS,
      summary: 'Create a user',
      description:
        'With an `Idempotency-Key` it is safe to repeat, for example after a lost connection.',
      parameters: [IDEMPOTENCY_KEY],
      body: {
        description: 'The user. The password may be left out. Other attributes are ignored.',
        schema: bodySchema('NewUser', schemas.newUser),
        example: { user: { name: ANN.name, ...LOGIN } },
      },
      answers: { 201: { ...answerWithUser('The user.'), headers: CREATE_HEADERS } },
      refusals: [...KEY_REFUSALS, 'validation_failed', 'email_taken', UNKNOWN],
    },
    verifyPassword: {
      id: 'verifyPassword',
      method: 'post',
      path: '/password-verifications',
      action: 'verify',
      tag: USERS,
      summary: 'Verify a password',
      description:
        'For a login: answers with the user if the password is right. An unknown e-mail, a user without a password and a ' +
        'wrong password get the same response, in about the same time.',
      body: {
        description: 'The e-mail and the password. Other attributes are ignored.',
        schema: bodySchema('Login', schemas.login),
        example: { user: LOGIN },
      },
      answers: {
        200: { description: 'The user with this e-mail and password.', content: USER_CONTENT },
      },
      refusals: ['validation_failed', 'wrong_credentials'],
    },
    readUser: {
      id: 'readUser',
      method: 'get',
      path: '/users/{id}',
      action: 'read',
      tag: USERS,
      summary: 'Read a user',
      description: 'With `If-None-Match`, the user is sent only if it has changed.',
      parameters: [ID, IF_NONE_MATCH],
      answers: {
        200: answerWithUser('The user.'),
        304: { description: 'The client has this version.', headers: { ETag: ETAG } },
      },
      refusals: ['user_not_found'],
    },
    updateUser: { ...update, id: 'updateUser', method: 'put' },
    patchUser: { ...update, id: 'patchUser', method: 'patch' },
    deleteUser: {
      id: 'deleteUser',
      method: 'delete',
      path: '/users/{id}',
      action: 'delete',
      produces: [],
      tag: USERS,
      summary: 'Delete a user',
      description:
        'The second time it is 404. With `If-Match`, only if the user still has one of these versions.',
      parameters: [ID, IF_MATCH],
      answers: { 204: { description: 'The user is deleted.' } },
      refusals: ['user_not_found', 'version_mismatch', UNKNOWN],
    },
  } satisfies Record<string, DescribedOperation>
}

function answerWithUser(description: string): Answer {
  return { description, headers: { ETag: ETAG }, content: USER_CONTENT }
}

/** The schema of a body. The document defines the user inside it under `id`. */
function bodySchema(id: string, schema: z.ZodType): z.ZodType {
  const { user } = (schema as z.ZodObject<{ user: z.ZodType }>).shape
  return bodyOf(user.meta({ id }))
}
