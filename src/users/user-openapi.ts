import { JSON_TYPE } from '../http/negotiation.ts'
import {
  ETAG,
  header,
  IDEMPOTENCY_KEY,
  IF_MATCH,
  IF_NONE_MATCH,
  LOCATION,
} from '../http/openapi/described-headers.ts'
import type { Endpoint } from '../http/openapi/described-operations.ts'
import { queryParametersOf, toJsonSchema } from '../http/openapi/json-schema.ts'
import { component } from '../http/openapi/references.ts'
import type { Answer, JsonSchema, Operation, Tag } from '../http/operation.ts'
import { listParameters, SAMPLE_CURSOR } from './list-query.ts'
import { EMAIL_TAKEN, type UserRules } from './user-schemas.ts'

/** The heading of all operations of users. */
export const USERS: Tag = {
  name: 'Users',
  description: 'Create, list, read, change and delete users, and verify their passwords.',
}

const SAMPLE_USER = {
  id: 1,
  name: 'Ann',
  email: 'ann@example.com',
  created_at: '2026-01-31T12:00:00.000Z',
  updated_at: '2026-01-31T12:00:00.000Z',
}

const TIME = {
  type: 'string',
  format: 'date-time',
  pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$',
}

const USER = component('schemas', 'User', {
  description: 'A user. The password is never shown.',
  type: 'object',
  properties: {
    id: {
      type: 'integer',
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Later users have larger ids. An id is never used again.',
    },
    name: { type: 'string', description: 'Normalised to NFC.' },
    email: { type: 'string', description: 'Unique without regard to case.' },
    created_at: { ...TIME, description: 'In UTC.' },
    updated_at: { ...TIME, description: 'Later with each change, even if the clock goes back.' },
  },
  required: ['id', 'name', 'email', 'created_at', 'updated_at'],
  additionalProperties: false,
})

const USER_LIST = component('schemas', 'UserList', {
  description: 'A page of users.',
  type: 'array',
  items: USER,
})

const USER_PAGE = component('schemas', 'UserPage', {
  description: 'A page of users in an object: with `envelope=true`.',
  type: 'object',
  properties: {
    data: USER_LIST,
    page: { type: 'integer', minimum: 1, description: 'Absent if the request has a cursor.' },
    has_more: { type: 'boolean', description: 'Whether there are users after these.' },
    total_count: { type: 'integer', minimum: 0, description: 'With `count=true`.' },
  },
  required: ['data', 'has_more'],
})

const ID = component('parameters', 'UserId', {
  name: 'id',
  in: 'path',
  required: true,
  description: 'A positive integer in plain decimal; anything else is 404.',
  schema: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
  example: 1,
} as const)

const LINK = header('Link', {
  description:
    'RFC 8288, with relative targets: `next` if there are more users, `first` and `prev` if `page` was sent.',
  schema: { type: 'string' },
  example: `</users?per_page=1&after=${SAMPLE_CURSOR}>; rel="next"`,
})

const TOTAL = header('XTotalCount', {
  description: 'Number of users that match the filters: with `count=true`.',
  schema: { type: 'integer', minimum: 0 },
  example: 2,
})

const REPLAYED = header('IdempotencyReplayed', {
  description: 'An earlier request with this `Idempotency-Key` created the user.',
  schema: { type: 'string', const: 'true' },
  example: 'true',
})

const NOT_MODIFIED: Answer = {
  description: 'The client has this version.',
  headers: { ETag: ETAG },
}

/** The refusals of every operation that reads users. */
export const STORAGE = { storage_unavailable: {} }

const STORAGE_WRITES = { ...STORAGE, outcome_unknown: {} }

/** The operations of users in the OpenAPI document. */
export function userOperations({ schemas }: UserRules) {
  const newUser = bodySchema('NewUser', toJsonSchema(schemas.newUser))
  const change = bodySchema('UserChange', toJsonSchema(schemas.change))
  const invalidEmail = { field: 'email', at: { pointer: '/user/email' }, messages: ['is invalid'] }

  const list: Operation = {
    id: 'listUsers',
    tag: USERS,
    summary: 'List users',
    description:
      'A page of users. To read all, follow `rel="next"` of `Link`: each page costs the same, and a user that ' +
      'exists all the time comes exactly once, whatever changes meanwhile.',
    parameters: [...queryParametersOf(listParameters), IF_NONE_MATCH],
    answers: {
      200: {
        description: 'The users; in an object with `envelope=true`.',
        headers: { ETag: ETAG, Link: LINK, 'X-Total-Count': TOTAL },
        content: {
          [JSON_TYPE]: {
            schema: { oneOf: [USER_LIST, USER_PAGE] },
            examples: {
              list: { summary: 'A page', value: [SAMPLE_USER] },
              envelope: {
                summary: 'With envelope=true and count=true',
                value: { data: [SAMPLE_USER], page: 1, has_more: true, total_count: 2 },
              },
            },
          },
        },
      },
      304: { ...NOT_MODIFIED, description: 'No user has changed since.' },
    },
    refusals: {
      query_invalid: {
        errors: [
          {
            field: 'per_page',
            at: { parameter: 'per_page' },
            messages: ['must be a whole number from 1 to 1000'],
          },
        ],
      },
      words_unavailable: {},
      ...STORAGE,
    },
  }

  const create: Operation = {
    id: 'createUser',
    tag: USERS,
    summary: 'Create a user',
    description:
      'With an `Idempotency-Key` it is safe to repeat, for example after a lost connection.',
    parameters: [IDEMPOTENCY_KEY],
    body: {
      description: 'The user. Other attributes are ignored.',
      schema: newUser,
      examples: {
        user: {
          summary: 'With a password',
          value: {
            user: {
              name: 'Ann',
              email: 'ann@example.com',
              password: 'correct horse battery staple',
            },
          },
        },
        withoutPassword: {
          summary: 'Without one',
          value: { user: { name: 'Bea', email: 'bea@example.com' } },
        },
      },
    },
    answers: {
      201: {
        ...answerWithUser('The user.'),
        headers: { ETag: ETAG, Location: LOCATION, 'Idempotency-Replayed': REPLAYED },
      },
    },
    refusals: {
      idempotency_key_malformed: {},
      idempotency_key_in_use: {},
      idempotent_user_deleted: {},
      idempotency_key_reused: {},
      validation_failed: { errors: [invalidEmail] },
      email_taken: { errors: [EMAIL_TAKEN] },
      ...STORAGE_WRITES,
    },
  }

  const read: Operation = {
    id: 'readUser',
    tag: USERS,
    summary: 'Read a user',
    description: 'With `If-None-Match`, the user is sent only if it has changed.',
    parameters: [ID, IF_NONE_MATCH],
    answers: { 200: answerWithUser('The user.'), 304: NOT_MODIFIED },
    refusals: { user_not_found: {}, ...STORAGE },
  }

  const update = (id: string): Operation => ({
    id,
    tag: USERS,
    summary: 'Change a user',
    description:
      'Changes the fields that are sent; PUT and PATCH do the same. If all values are the same, ' +
      '`updated_at` stays. With `If-Match`, only if the user still has one of these versions.',
    parameters: [ID, IF_MATCH],
    body: {
      description: 'The fields to change. Other attributes are ignored.',
      schema: change,
      examples: {
        name: { summary: 'A new name', value: { user: { name: 'Bea' } } },
        password: { summary: 'Remove the password', value: { user: { password: null } } },
      },
    },
    answers: { 200: answerWithUser('The user after the change.') },
    refusals: {
      validation_failed: { errors: [invalidEmail] },
      email_taken: { errors: [EMAIL_TAKEN] },
      user_not_found: {},
      version_mismatch: {},
      ...STORAGE_WRITES,
    },
  })

  const remove: Operation = {
    id: 'deleteUser',
    tag: USERS,
    summary: 'Delete a user',
    description:
      'The second time it is 404. With `If-Match`, only if the user still has one of these versions.',
    parameters: [ID, IF_MATCH],
    answers: { 204: { description: 'The user is deleted.' } },
    refusals: { user_not_found: {}, version_mismatch: {}, ...STORAGE_WRITES },
  }

  return { list, create, read, update: update('updateUser'), patch: update('patchUser'), remove }
}

function answerWithUser(description: string): Answer {
  return { description, headers: { ETag: ETAG }, content: userContent() }
}

/** The content of a response with one user. */
export function userContent(): NonNullable<Answer['content']> {
  return {
    [JSON_TYPE]: { schema: USER, examples: { user: { summary: 'A user', value: SAMPLE_USER } } },
  }
}

/** Makes two components: the body, and the user inside it under `name`. */
export function bodySchema(name: string, schema: JsonSchema): JsonSchema {
  const { user } = schema.properties as { user: JsonSchema }
  return component('schemas', `${name}Body`, {
    ...schema,
    properties: { user: component('schemas', name, user) },
  })
}

/** The operations of users, for the OpenAPI document. */
export function userEndpoints(rules: UserRules): readonly Endpoint[] {
  const { list, create, read, update, patch, remove } = userOperations(rules)
  const of = { resource: 'User' }
  const all = { ...of, path: '/users' }
  const one = { ...of, path: '/users/{id}' }
  return [
    { ...all, method: 'get', action: 'list', operation: () => list },
    { ...all, method: 'post', action: 'create', operation: () => create },
    { ...one, method: 'get', action: 'read', operation: () => read },
    { ...one, method: 'put', action: 'update', operation: () => update },
    { ...one, method: 'patch', action: 'update', operation: () => patch },
    { ...one, method: 'delete', action: 'delete', produces: [], operation: () => remove },
  ]
}
