import type { Router } from 'express'
import { JSON_TYPE } from '../http/negotiation.ts'
import { RETRY_AFTER } from '../http/openapi/described-headers.ts'
import type { Endpoint } from '../http/openapi/described-operations.ts'
import { component } from '../http/openapi/references.ts'
import type { Answer, Tag } from '../http/operation.ts'
import { jsonReply, type Reply } from '../http/reply.ts'
import { createRouter, type RouteParts } from '../http/router.ts'

const HEALTH: Tag = { name: 'Health', description: 'For monitoring and load balancers.' }

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
    if (isStopping()) return false
    return ping().then(
      () => true,
      () => false,
    )
  }
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

/** The operations of health checks, for the OpenAPI document. */
export function healthEndpoints(): readonly Endpoint[] {
  return [
    {
      method: 'get',
      path: '/livez',
      produces: [],
      operation: () => ({
        id: 'checkLiveness',
        tag: HEALTH,
        summary: 'Whether the process runs',
        description: 'Answers 200 while the process runs. Limits do not apply.',
        answers: { 200: describeReport('The process runs.', 'ok') },
      }),
    },
    {
      method: 'get',
      path: '/readyz',
      produces: [],
      operation: () => ({
        id: 'checkReadiness',
        tag: HEALTH,
        summary: 'Whether the service is ready',
        description:
          'For load balancers, which should send requests only while it answers 200. Limits do not apply.',
        answers: {
          200: describeReady(),
          503: describeReport(
            'The database does not answer, or the service is stopping.',
            'unavailable',
          ),
        },
      }),
    },
  ]
}

function describeReport(description: string, status: string): Answer {
  const schema = component('schemas', status === 'ok' ? 'Healthy' : 'Unhealthy', {
    type: 'object',
    properties: { status: { type: 'string', const: status } },
    required: ['status'],
  })
  return {
    description,
    ...(status !== 'ok' && { headers: { 'Retry-After': RETRY_AFTER } }),
    content: {
      [JSON_TYPE]: { schema, examples: { [status]: { summary: description, value: { status } } } },
    },
  }
}

function describeReady(): Answer {
  const schema = component('schemas', 'Ready', {
    type: 'object',
    properties: {
      status: { type: 'string', const: 'ok' },
      limits: {
        type: 'string',
        const: 'local',
        description:
          'Only while this process counts limits by itself, because the counters that it shares cannot be reached.',
      },
    },
    required: ['status'],
  })
  const description = 'The service is ready.'
  const local = 'The service is ready, and counts limits by itself.'
  return {
    description,
    content: {
      [JSON_TYPE]: {
        schema,
        examples: {
          ok: { summary: description, value: { status: 'ok' } },
          local: { summary: local, value: { status: 'ok', limits: 'local' } },
        },
      },
    },
  }
}
