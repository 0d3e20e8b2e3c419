import type { Endpoint } from '../http/endpoints.ts'
import type { PasswordVerifications } from './password-verifications.ts'
import type { UserOperations } from './user-openapi.ts'

/** The endpoint that verifies a password. */
export function passwordVerificationRoutes(
  verifications: PasswordVerifications,
  { verifyPassword }: UserOperations,
): readonly Endpoint[] {
  return [
    {
      ...verifyPassword,
      takesBody: true,
      // Without an ETag: the response is the result of the verification, and not the state of this path.
      handle: async request => {
        const { json } = await verifications.verify(request.body)
        return { status: 200, body: json }
      },
    },
  ]
}
