import type { Endpoint } from '../http/endpoints.ts'
import { verificationOperation } from './password-verification-operation.ts'
import type { PasswordVerifications } from './password-verifications.ts'
import type { UserRules } from './user-schemas.ts'

/** The endpoint that verifies a password. */
export function passwordVerificationRoutes(
  verifications: PasswordVerifications,
  rules: UserRules,
): readonly Endpoint[] {
  return [
    {
      method: 'post',
      path: '/password-verifications',
      action: 'verify',
      takesBody: true,
      operation: () => verificationOperation(rules),
      // Without an ETag: the response is the result of the verification, and not the state of this path.
      handle: async request => {
        const { json } = await verifications.verify(request.body)
        return { status: 200, body: json }
      },
    },
  ]
}
