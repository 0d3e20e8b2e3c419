import type { Endpoint } from '../http/openapi/described-operations.ts'
import { toJsonSchema } from '../http/openapi/json-schema.ts'
import type { Operation } from '../http/operation.ts'
import { bodySchema, STORAGE, USERS, userContent } from './user-openapi.ts'
import type { UserRules } from './user-schemas.ts'

/** The verification of a password in the OpenAPI document. */
function verificationOperation({ schemas }: UserRules): Operation {
  const pointer = '/user/password'
  return {
    id: 'verifyPassword',
    tag: USERS,
    summary: 'Verify a password',
    description:
      'For a login: answers with the user if the password is right. An unknown e-mail, a user without a password and a ' +
      'wrong password get the same response, in about the same time.',
    body: {
      description: 'The e-mail and the password. Other attributes are ignored.',
      schema: bodySchema('Login', toJsonSchema(schemas.login)),
      examples: {
        login: {
          summary: 'An e-mail and a password',
          value: { user: { email: 'ann@example.com', password: 'correct horse battery staple' } },
        },
      },
    },
    answers: {
      200: { description: 'The user with this e-mail and password.', content: userContent() },
    },
    refusals: {
      validation_failed: {
        errors: [{ field: 'password', at: { pointer }, messages: ["can't be blank"] }],
      },
      wrong_credentials: {},
      ...STORAGE,
    },
  }
}

export function verificationEndpoint(rules: UserRules): Endpoint {
  return {
    method: 'post',
    path: '/password-verifications',
    action: 'verify',
    operation: () => verificationOperation(rules),
  }
}
