import type { Router } from 'express'
import { z } from 'zod'
import { JSON_TYPE } from '../http/negotiation.ts'
import { RETRY_AFTER } from '../http/openapi/described-headers.ts'
import type { DescribedOperation } from '../http/openapi/operation.ts'
import { jsonReply, type Reply } from '../http/reply.ts'
import { createRouter, type RouteParts } from '../http/router.ts'

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

export interface ReadinessOptions {
  /** Rejects when the service cannot answer requests now. */
  readonly ping: () => Promise<void>
  readonly isStopping: () => boolean
}

/** Resolves to whether the service can answer requests; never rejects. */
export type Readiness = () => Promise<boolean>

/** Not ready once it is stopping, and while `ping` rejects. */
export function createReadiness({ ping, isStopping }: ReadinessOptions): Readiness {
  return async () => {
    return !isStopping() && isFulfilled(ping())
  }
}

/** Whether a promise is fulfilled. Never rejects. */
export function isFulfilled(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  )
}

export interface HealthOptions {
  readonly isReady: Readiness
  /** Whether limits that should hold for several processes hold for this one only. */
  readonly isCountingLocally?: (() => boolean) | undefined
}

/** `/livez` answers 200 while the process runs; `/readyz` answers 200 while `isReady`, otherwise 503. */
export function createHealthRouter(
  { isReady, isCountingLocally = () => false }: HealthOptions,
  { answer, otherMethods }: RouteParts,
): Router {
  async function answerReadiness(): Promise<Reply> {
    if (!(await isReady())) return jsonReply(503, { status: 'unavailable' }, { 'Retry-After': '1' })
    return jsonReply(200, { status: 'ok', ...(isCountingLocally() && { limits: 'local' }) })
  }

  const router = createRouter()
  router.route('/livez').get(answer(answerLiveness)).all(otherMethods)
  router.route('/readyz').get(answer(answerReadiness)).all(otherMethods)
  return router
}

export function answerLiveness(): Reply {
  return jsonReply(200, { status: 'ok' })
}
