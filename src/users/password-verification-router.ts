import type { Router } from 'express'
import { acceptJson, createRouter, type RouteParts } from '../http/router.ts'
import type { PasswordVerifications } from './password-verifications.ts'

/** The route that verifies a password. */
export function createPasswordVerificationRouter(
  verifications: PasswordVerifications,
  { scope, limit, readBody, limitByBody, answer, otherMethods }: RouteParts,
): Router {
  const router = createRouter()
  router
    .route('/password-verifications')
    .post(
      scope('verify'),
      limit('verify'),
      acceptJson,
      readBody,
      limitByBody('verify'),
      // Without an ETag: the response is the result of the verification, and not the state of this path.
      answer(async request => {
        const { json } = await verifications.verify(request.body)
        return { status: 200, body: json }
      }),
    )
    .all(otherMethods)
  return router
}
