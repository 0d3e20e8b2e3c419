import type { Request, RequestHandler, Router } from 'express'
import { z } from 'zod'
import { JSON_TYPE } from '../http/negotiation.ts'
import type { DescribedOperation } from '../http/openapi/operation.ts'
import { RETRY_AFTER } from '../http/openapi/operation.ts'
import { type QueryParameter, queryParameters } from '../http/query.ts'
import { jsonReply, type Reply } from '../http/reply.ts'
import { createRouter, type RouteParts } from '../http/router.ts'
import { withinPatience } from '../platform/patience.ts'

const HEALTH = {
  method: 'get',
  isOpen: true,
  isUnfiltered: true,
  produces: [],
  tag: { name: 'Health', description: 'For monitoring and load balancers.' },
} as const

const OK = z.literal('ok')

const READY = z.object({
  status: OK,
  limits: z
    .literal('local')
    .optional()
    .describe('This process counts limits alone: the counters that it shares cannot be reached.'),
})

/** What health checks answer. */
export const healthOperations = {
  checkLiveness: {
    ...HEALTH,
    id: 'checkLiveness',
    path: '/livez',
    summary: 'Whether the process runs',
    description: 'Answers 200 while the process runs. Limits do not apply.',
    answers: {
      200: {
        description: 'The process runs.',
        content: { [JSON_TYPE]: { schema: z.object({ status: OK }) } },
      },
    },
  },
  checkReadiness: {
    ...HEALTH,
    id: 'checkReadiness',
    path: '/readyz',
    summary: 'Whether the service is ready',
    description:
      'For load balancers, which should send requests only while it answers 200. Limits do not apply.',
    answers: {
      200: {
        description: 'The service is ready.',
        content: { [JSON_TYPE]: { schema: READY, example: { status: 'ok' } } },
      },
      503: {
        description: 'The database does not answer, or the service is stopping.',
        headers: { 'Retry-After': RETRY_AFTER },
        content: { [JSON_TYPE]: { schema: z.object({ status: z.literal('unavailable') }) } },
      },
    },
  },
} satisfies Record<string, DescribedOperation>

/** Tells whether the service is ready, and what must work for that, by name. */
export type CheckReadiness = ReturnType<typeof createReadinessCheck>

export interface ReadinessOptions {
  /** Rejects when the database does not answer. */
  readonly ping: () => Promise<void>
  readonly isStopping: () => boolean
  /** How many connections to the database are open, and how many are wanted, while there are too few. */
  readonly shortage: () => { readonly open: number; readonly wanted: number } | undefined
  /** Whether limits that should hold for several processes hold for this one only; `undefined` without limits. */
  readonly isCountingLocally: (() => boolean) | undefined
}

/** Ready until it is stopping, and while `ping` resolves within `timeoutMs`. The check never rejects. */
export function createReadinessCheck(options: ReadinessOptions) {
  const { ping, isStopping, shortage, isCountingLocally } = options
  const status = (isOk: boolean) => ({ status: isOk ? 'ok' : 'unavailable' }) as const
  return async (timeoutMs = Infinity) => {
    const isStorageUp = await withinPatience(timeoutMs, ping()).then(
      () => true,
      () => false,
    )
    const short = shortage()
    return {
      isReady: !isStopping() && isStorageUp,
      checks: {
        service: status(!isStopping()),
        storage: status(isStorageUp),
        // All requests are served, but wait longer.
        ...(short && { connections: { status: 'short' as const, ...short } }),
        ...(isCountingLocally && {
          limits: { status: isCountingLocally() ? ('local' as const) : ('ok' as const) },
        }),
      },
    }
  }
}

export interface HealthOptions {
  readonly checks: CheckReadiness
  /** For operators: `/readyz?verbose=true` has each check by name. */
  readonly canBeVerbose?: boolean
  /** Stand before both routes. */
  readonly guards?: RequestHandler[]
}

/** `/livez` answers 200 while the process runs; `/readyz` answers 200 while the service is ready, otherwise 503. */
export function createHealthRouter(
  { checks: check, canBeVerbose = false, guards = [] }: HealthOptions,
  { answer, otherMethods }: RouteParts,
): Router {
  async function answerReadiness({ url }: Request): Promise<Reply> {
    const { isReady, checks } = await check()
    const asksForMore = ({ name, value }: QueryParameter) => name === 'verbose' && value === 'true'
    const body = {
      status: isReady ? 'ok' : 'unavailable',
      ...(isReady && checks.limits?.status === 'local' && { limits: 'local' }),
      ...(canBeVerbose && queryParameters(url).some(asksForMore) && { checks }),
    }
    return jsonReply(isReady ? 200 : 503, body, isReady ? {} : { 'Retry-After': '1' })
  }

  const answerLiveness = () => jsonReply(200, { status: 'ok' })
  const router = createRouter()
  router.route('/livez').get(guards, answer(answerLiveness)).all(guards, otherMethods)
  router.route('/readyz').get(guards, answer(answerReadiness)).all(guards, otherMethods)
  return router
}
