import type { Router } from 'express'
import { ServiceError } from '../../errors.ts'
import { jsonReply, type Reply } from '../../http/reply.ts'
import { acceptJson, createRouter, type RouteParts } from '../../http/router.ts'
import type { Operations } from './operations.ts'
import { ruleStatusOf } from './status-of.ts'

/** The rules in force with what they have done, and a way to read them again. */
export function createLimitsRouter(
  operations: Pick<Operations, 'report' | 'reloadLimits'>,
  { answer, readBody, otherMethods }: RouteParts,
): Router {
  async function list(): Promise<Reply> {
    const { limits } = await operations.report()
    return jsonReply(200, (limits?.rules ?? []).map(ruleStatusOf))
  }

  async function reload(): Promise<Reply> {
    const result = await operations.reloadLimits()
    switch (result.outcome) {
      case 'reloaded':
        return jsonReply(200, { reloaded: true, ...result.changes })
      case 'no file':
        return jsonReply(200, { reloaded: false, message: 'LIMITS_FILE is not set' })
      case 'invalid':
        throw new ServiceError('limits_invalid', {
          errors: [{ field: 'LIMITS_FILE', messages: result.mistakes }],
        })
      case 'failed':
        throw new ServiceError('reload_failed')
    }
  }

  const router = createRouter()
  router.route('/limits').get(acceptJson, answer(list)).all(otherMethods)
  // It needs no body, but one of a page's form is refused by its type.
  router.route('/limits/reload').post(acceptJson, readBody, answer(reload)).all(otherMethods)
  return router
}
