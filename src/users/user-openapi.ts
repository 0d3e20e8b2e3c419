import { z } from 'zod'
import { JSON_TYPE } from '../http/negotiation.ts'
import {
  type Answer,
  type DescribedOperation,
  ETAG,
  IDEMPOTENCY_KEY,
  IF_MATCH,
  IF_NONE_MATCH,
  PREFER,
  PREFERENCE_APPLIED,
  type Schemas,
} from '../http/openapi/operation.ts'
import { changeParameters, EVENT_STREAM_TYPE } from './change-feed.ts'
import { deletionParameters, listParameters } from './list-query.ts'
import { MAX_BATCH_USERS } from './user-body.ts'
import { WHOLE_LIST_FORMS } from './user-lists.ts'
import { BLANK, EMAIL_TAKEN, fieldError, type UserRules } from './user-schemas.ts'

const USERS = {
  name: 'Users',
  description: 'Create, list, read, change and delete users, and verify their passwords.',
}

const TIME = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  .meta({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'] })

const USER = z
  .strictObject({
    id: z.int().min(1).describe('Later users have larger ids. An id is never used again.'),
    name: z.string().meta({ description: 'Normalised to NFC.', examples: ['Bob'] }),
    email: z.string().meta({
      description: 'Unique without regard to case.',
      examples: ['bob@example.com'],
    }),
    created_at: TIME.meta({ description: 'In UTC.' }),
    updated_at: TIME.meta({ description: 'Later with each change, even if the clock goes back.' }),
  })
  .meta({ id: 'User', description: 'A user. The password is never shown.' })

const DELETIONS = z.object({
  data: z.array(
    z.object({ id: z.int().min(1), status: z.union([z.literal(204), z.literal(404)]) }),
  ),
})

const USER_PAGE = z
  .object({
    data: z.array(USER),
    page: z.int().min(1).optional().describe('Absent if the request has a cursor.'),
    has_more: z.boolean().describe('Whether there are users after these.'),
    total_count: z.int().min(0).optional().describe('With `count=true`.'),
  })
  .meta({ id: 'UserPage', description: 'A page of users in an object: with `envelope=true`.' })

const ENTRY = z.union([
  z.object({ status: z.literal(201), user: USER }),
  z.object({
    status: z.literal(422),
    message: z.string(),
    reason: z.string(),
    errors: z.record(z.string(), z.array(z.string()).min(1)),
  }),
])

const CREATED_USERS = z
  .object({ data: z.array(ENTRY).describe('An entry for each of `users`, in their order.') })
  .meta({ id: 'CreatedUsers', description: 'What each of many users would have got alone.' })

const CHANGE_PAGE = z
  .object({
    data: z.array(
      z.object({
        id: z.int().min(1),
        user: USER.nullable().describe('The user as it is now; null if it was deleted.'),
        deleted_at: TIME.optional().describe('When it was deleted.'),
      }),
    ),
    has_more: z.boolean().describe('Whether there are more changes now.'),
    next: z.string().describe('What the next request sends as `after`.'),
  })
  .meta({ id: 'ChangePage', description: 'Changes of users.' })

const LIST_CONTENT = {
  [JSON_TYPE]: { schema: z.union([z.array(USER), USER_PAGE]) },
  ...Object.fromEntries(WHOLE_LIST_FORMS.map(({ type }) => [type, { schema: z.string() }])),
}

const ID = z
  .int()
  .min(1)
  .meta({ param: { id: 'UserId', name: 'id', in: 'path', example: 1 } })

const VERSION = { ETag: ETAG }

const APPLIED = { 'Preference-Applied': PREFERENCE_APPLIED }

const LIST_HEADERS = {
  ETag: ETAG.optional(),
  Link: z
    .string()
    .optional()
    .describe('Relative targets: `next` if there are more users, `first` and `prev` with `page`.'),
  'X-Total-Count': z.int().min(0).optional().describe('Users that match: with `count=true`.'),
  'Content-Disposition': z.string().optional().describe('The name of a file: of `text/csv`.'),
}

const CREATE_HEADERS = {
  ...VERSION,
  ...APPLIED,
  Location: z.string().describe('The path of the user.'),
  'Idempotency-Replayed': z
    .literal('true')
    .optional()
    .describe('An earlier request with this `Idempotency-Key` created the user.'),
}

/** Another user than that of the README, so that the examples work after it too. */
const BOBS_LOGIN = { email: 'bob@example.com', password: 'correct horse battery staple' }

const TAKEN = { email_taken: { errors: [EMAIL_TAKEN] } }

type Operation = Omit<DescribedOperation, 'id' | 'tag'>

/** What requests for users take and answer. In the order of the document, so that its examples work from top to bottom. */
export function describeUserOperations(rules: UserRules): readonly DescribedOperation[] {
  const newUser = rules.newUser.meta({ id: 'NewUser' })
  const update: Omit<Operation, 'method'> = {
    path: '/users/{id}',
    action: 'update',
    summary: 'Change a user',
    description:
      'Changes the fields that are sent. PUT and PATCH do the same; PATCH also takes ' +
      '`application/merge-patch+json`. If all values are the same, `updated_at` stays. With `If-Match`, only if the user still has one of these versions.',
    parameters: [ID, IF_MATCH, IF_NONE_MATCH, PREFER],
    body: z.object({ user: rules.change.meta({ id: 'UserChange' }) }),
    example: { user: { name: 'Bob Stone' } },
    answers: { 200: answerWith(USER, 'The user after the change.', { ...VERSION, ...APPLIED }) },
    refusals: { ...invalid('name'), ...TAKEN, user_not_found: {}, outcome_unknown: {} },
  }

  const operations: Readonly<Record<string, Operation>> = {
    listUsers: {
      method: 'get',
      path: '/users',
      action: 'list',
      produces: [JSON_TYPE, ...WHOLE_LIST_FORMS.map(({ type }) => type)],
      summary: 'List users',
      description:
        'A page of users. To read all, follow `rel="next"` of `Link`: each page costs the same, and a user that ' +
        'exists all the time comes exactly once, whatever changes meanwhile. As `application/x-ndjson` or `text/csv` all users ' +
        'that match come in one response, in the order of their ids, one object or row a line; it takes no `per_page`, `page`, ' +
        '`after`, `sort`, `count` or `envelope`, and has no `ETag`. A response that breaks off is not complete. In CSV, cells ' +
        'that a spreadsheet would take for formulas begin with an apostrophe.',
      query: listParameters,
      parameters: [IF_MATCH, IF_NONE_MATCH],
      answers: {
        200: {
          description: 'The users; in an object with `envelope=true`.',
          headers: LIST_HEADERS,
          content: LIST_CONTENT,
        },
        304: { description: 'No user has changed since.', headers: VERSION },
      },
    },
    listChanges: {
      method: 'get',
      path: '/users/changes',
      action: 'list',
      produces: [JSON_TYPE, EVENT_STREAM_TYPE],
      summary: 'Follow changes',
      description:
        'The latest change of each user, deletions among them, to keep a copy of all users that is right. Begin without ' +
        '`after`, apply each entry in order, and go on with `next`. With `wait` the answer comes at the next change. As ' +
        '`text/event-stream` the changes come as events `user` and `deletion`; it takes `Last-Event-ID`, `lastEventId` or `after` only.',
      query: changeParameters,
      answers: {
        200: {
          description: 'The changes after the cursor.',
          headers: { Link: z.string().optional().describe('`next`, as in the body.') },
          content: {
            [JSON_TYPE]: { schema: CHANGE_PAGE },
            [EVENT_STREAM_TYPE]: { schema: z.string() },
          },
        },
      },
      refusals: { cursor_expired: {} },
    },
    createUser: {
      method: 'post',
      path: '/users',
      action: 'create',
      summary: 'Create a user, or many',
      description:
        'With an `Idempotency-Key` it is safe to repeat, for example after a lost connection. ' +
        `\`users\` in place of \`user\` takes up to ${MAX_BATCH_USERS}, each of which is created or rejected for itself, and no key.`,
      parameters: [IDEMPOTENCY_KEY, PREFER],
      body: z.union([
        z.object({ user: newUser }),
        z.object({ users: z.array(newUser).min(1).max(MAX_BATCH_USERS) }),
      ]),
      example: { user: { name: 'Bob', ...BOBS_LOGIN } },
      answers: {
        200: answerWith(CREATED_USERS, 'What became of each of `users`.', APPLIED),
        201: answerWith(USER, 'The user.', CREATE_HEADERS),
      },
      refusals: { ...invalid('name'), ...TAKEN, outcome_unknown: {} },
    },
    verifyPassword: {
      method: 'post',
      path: '/password-verifications',
      action: 'verify',
      summary: 'Verify a password',
      description:
        'For a login, or by `id` to confirm who is known already: answers with the user if the password is right. An unknown ' +
        'e-mail or id, a user without a password and a wrong password get the same response, in about the same time.',
      body: z.object({
        user: z.union([
          rules.login.meta({ id: 'Login' }),
          rules.loginById.meta({ id: 'LoginById' }),
        ]),
      }),
      example: { user: BOBS_LOGIN },
      answers: {
        200: answerWith(USER, 'The user with this e-mail or id, and this password.'),
      },
      refusals: { ...invalid('password'), wrong_credentials: {} },
    },
    readUser: {
      method: 'get',
      path: '/users/{id}',
      action: 'read',
      summary: 'Read a user',
      description: 'With `If-None-Match`, the user is sent only if it has changed.',
      parameters: [ID, IF_MATCH, IF_NONE_MATCH],
      answers: {
        200: answerWith(USER, 'The user.', VERSION),
        304: { description: 'The client has this version.', headers: VERSION },
      },
      refusals: { user_not_found: {} },
    },
    updateUser: { ...update, method: 'put' },
    patchUser: { ...update, method: 'patch', summary: 'Change a user, as PUT' },
    deleteUsers: {
      method: 'delete',
      path: '/users',
      action: 'delete',
      produces: [],
      summary: 'Delete several users',
      description: 'In one transaction. The answer has what became of each, in the order sent.',
      query: deletionParameters,
      answers: {
        200: answerWith(
          DELETIONS,
          '204 for each user that is deleted, 404 for each that was not there.',
        ),
      },
      refusals: { query_invalid: {}, outcome_unknown: {} },
    },
    deleteUser: {
      method: 'delete',
      path: '/users/{id}',
      action: 'delete',
      produces: [],
      summary: 'Delete a user',
      description:
        'The second time it is 404. With `If-Match`, only if the user still has one of these versions.',
      parameters: [ID, IF_MATCH, IF_NONE_MATCH],
      answers: { 204: { description: 'The user is deleted.' } },
      refusals: { user_not_found: {}, outcome_unknown: {} },
    },
  }
  return Object.entries(operations).map(([id, operation]) => ({ id, tag: USERS, ...operation }))
}

/** For an example. */
function invalid(field: string) {
  return { validation_failed: { errors: [fieldError(field, [BLANK])] } }
}

function answerWith(schema: z.ZodType, description: string, headers: Schemas = {}): Answer {
  return { description, headers, content: { [JSON_TYPE]: { schema } } }
}
