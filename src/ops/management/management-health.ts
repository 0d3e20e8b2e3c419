import type { Request, Router } from 'express'
import { queryParameters } from '../../http/query.ts'
import { jsonReply, type Reply } from '../../http/reply.ts'
import { createRouter, type RouteParts } from '../../http/router.ts'
import { answerLiveness } from '../health.ts'
import type { Operations } from './operations.ts'
import { requireOwnOrigin } from './require-own-origin.ts'

/** `/livez` and `/readyz` as on the public port. `/readyz?verbose=true` has each check by name. */
export function createManagementHealth(
  { checks }: Pick<Operations, 'checks'>,
  { answer, otherMethods }: RouteParts,
): Router {
  async function answerReadiness(request: Request): Promise<Reply> {
    const { isReady, checks: byName } = await checks()
    const isVerbose = queryParameters(request.url).some(
      ({ name, value }) => name === 'verbose' && value === 'true',
    )
    const isLocal = byName.limits?.status === 'local'
    const body = {
      status: isReady ? 'ok' : 'unavailable',
      ...(isReady && isLocal && { limits: 'local' }),
      ...(isVerbose && { checks: byName }),
    }
    return jsonReply(isReady ? 200 : 503, body, isReady ? {} : { 'Retry-After': '1' })
  }

  const router = createRouter()
  router.route('/livez').all(requireOwnOrigin).get(answer(answerLiveness)).all(otherMethods)
  router.route('/readyz').all(requireOwnOrigin).get(answer(answerReadiness)).all(otherMethods)
  return router
}
