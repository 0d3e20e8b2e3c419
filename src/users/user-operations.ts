import {
  ETAG,
  header,
  IDEMPOTENCY_KEY,
  IF_MATCH,
  IF_NONE_MATCH,
  LOCATION,
} from '../http/described-headers.ts'
import { queryParametersOf, toJsonSchema } from '../http/json-schema.ts'
import { JSON_TYPE } from '../http/negotiation.ts'
import {
  type Answer,
  component,
  type JsonSchema,
  type Operation,
  type Tag,
} from '../http/operation.ts'
import { listParameters, SAMPLE_CURSOR } from './list-request.ts'
import { EMAIL_TAKEN, type UserRules } from './user.ts'

const USERS: Tag = {
  name: 'Users',
  description: 'Create, list, read, change and delete users.',
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
  description: 'A user. The password is shown nowhere.',
  type: 'object',
  properties: {
    id: {
      type: 'integer',
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Grows, and is never given out twice.',
    },
    name: { type: 'string', description: 'In NFC.' },
    email: { type: 'string', description: 'Unique without regard to case.' },
    created_at: { ...TIME, description: 'In UTC.' },
    updated_at: { ...TIME, description: 'Later with each change, whatever the clock does.' },
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
  description: 'A page of users, and what there is to say of it: with `envelope=true`.',
  type: 'object',
  properties: {
    data: USER_LIST,
    page: { type: 'integer', minimum: 1, description: 'Unless the page is one `after` a cursor.' },
    has_more: { type: 'boolean', description: 'Whether there are users after these.' },
    total_count: { type: 'integer', minimum: 0, description: 'With `count=true`.' },
  },
  required: ['data', 'has_more'],
})

const ID = component('parameters', 'UserId', {
  name: 'id',
  in: 'path',
  required: true,
  description: 'A positive integer in plain decimal; anything else names no user.',
  schema: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
  example: 1,
} as const)

const LINK = header('Link', {
  description:
    'RFC 8288, with relative targets: `next` where there is more, `first` and `prev` where `page` was sent.',
  schema: { type: 'string' },
  example: `</users?per_page=1&after=${SAMPLE_CURSOR}>; rel="next"`,
})

const TOTAL = header('XTotalCount', {
  description: 'How many users there are with these filters: with `count=true`.',
  schema: { type: 'integer', minimum: 0 },
  example: 2,
})

const REPLAYED = header('IdempotencyReplayed', {
  description: 'That an earlier request with this `Idempotency-Key` created the user.',
  schema: { type: 'string', const: 'true' },
  example: 'true',
})

const NOT_MODIFIED: Answer = {
  description: 'The client has this version.',
  headers: { ETag: ETAG },
}

const STORAGE = { storage_unavailable: {} }

/** What the endpoints of users take and answer. */
export function userOperations({ schemas }: UserRules) {
  const newUser = bodySchema('NewUser', toJsonSchema(schemas.newUser))
  const change = bodySchema('UserChange', toJsonSchema(schemas.change))
  const isInvalid = { field: 'email', at: { pointer: '/user/email' }, messages: ['is invalid'] }

  const list: Operation = {
    id: 'listUsers',
    tag: USERS,
    summary: 'List users',
    description:
      'A page of users. To read all, follow `rel="next"` of `Link`: each page costs the same, and every user ' +
      'who is there throughout comes once, whatever changes meanwhile.',
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
      ...STORAGE,
    },
  }

  const create: Operation = {
    id: 'createUser',
    tag: USERS,
    summary: 'Create a user',
    description:
      'With an `Idempotency-Key` it can be repeated safely, after a lost connection say.',
    parameters: [IDEMPOTENCY_KEY],
    body: {
      description: 'The user. Attributes other than these are ignored.',
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
      validation_failed: { errors: [isInvalid] },
      email_taken: { errors: [EMAIL_TAKEN] },
      ...STORAGE,
    },
  }

  const read: Operation = {
    id: 'readUser',
    tag: USERS,
    summary: 'Read a user',
    description: 'With `If-None-Match` only what has changed is sent.',
    parameters: [ID, IF_NONE_MATCH],
    answers: { 200: answerWithUser('The user.'), 304: NOT_MODIFIED },
    refusals: { user_not_found: {}, ...STORAGE },
  }

  const update = (id: string): Operation => ({
    id,
    tag: USERS,
    summary: 'Change a user',
    description:
      'Changes the fields that are sent; PUT and PATCH do the same. Where nothing differs, nothing changes. ' +
      'With `If-Match` it is done only if nobody else made a change since.',
    parameters: [ID, IF_MATCH],
    body: {
      description: 'The fields to change. Attributes other than these are ignored.',
      schema: change,
      examples: {
        name: { summary: 'A new name', value: { user: { name: 'Bea' } } },
        password: { summary: 'No password any more', value: { user: { password: null } } },
      },
    },
    answers: { 200: answerWithUser('The user as it is now.') },
    refusals: {
      validation_failed: { errors: [isInvalid] },
      email_taken: { errors: [EMAIL_TAKEN] },
      user_not_found: {},
      version_mismatch: {},
      ...STORAGE,
    },
  })

  const remove: Operation = {
    id: 'deleteUser',
    tag: USERS,
    summary: 'Delete a user',
    description: 'A second time it is 404. With `If-Match` only a version that is known goes.',
    parameters: [ID, IF_MATCH],
    answers: { 204: { description: 'The user is gone.' } },
    refusals: { user_not_found: {}, version_mismatch: {}, ...STORAGE },
  }

  return { list, create, read, update: update('updateUser'), patch: update('patchUser'), remove }
}

function answerWithUser(description: string): Answer {
  return {
    description,
    headers: { ETag: ETAG },
    content: {
      [JSON_TYPE]: { schema: USER, examples: { user: { summary: 'A user', value: SAMPLE_USER } } },
    },
  }
}

/** The user in it is a component of this name, and it is one as well. */
function bodySchema(name: string, schema: JsonSchema): JsonSchema {
  const { user } = schema.properties as { user: JsonSchema }
  return component('schemas', `${name}Body`, {
    ...schema,
    properties: { user: component('schemas', name, user) },
  })
}
