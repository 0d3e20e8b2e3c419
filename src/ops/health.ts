import { NO_STORE, RETRY_AFTER } from '../http/described-headers.ts'
import type { Endpoint } from '../http/endpoints.ts'
import { JSON_TYPE } from '../http/negotiation.ts'
import { type Answer, component, type Tag } from '../http/operation.ts'
import type { Reply } from '../http/reply.ts'

const HEALTH: Tag = { name: 'Health', description: 'For whoever watches over the service.' }

export interface ReadinessOptions {
  /** Rejects when the service cannot answer requests now. */
  readonly ping: () => Promise<void>
  readonly isStopping: () => boolean
}

/** Whether the service is worth sending requests to. */
export type Readiness = () => Promise<boolean>

export function createReadiness({ ping, isStopping }: ReadinessOptions): Readiness {
  return async () => {
    if (isStopping()) return false
    return ping().then(
      () => true,
      () => false,
    )
  }
}

/** `/livez` says that the process runs, `/readyz` whether it is ready. */
export function healthRoutes(isReady: Readiness): readonly Endpoint[] {
  return [
    {
      method: 'get',
      path: '/livez',
      produces: [],
      handle: () => report(200, 'ok'),
      operation: () => ({
        id: 'checkLiveness',
        tag: HEALTH,
        summary: 'Whether the process runs',
        description: 'Answers as long as it does. No limit counts it.',
        answers: { 200: describeReport('It runs.', 'ok') },
      }),
    },
    {
      method: 'get',
      path: '/readyz',
      produces: [],
      handle: async () => ((await isReady()) ? report(200, 'ok') : report(503, 'unavailable')),
      operation: () => ({
        id: 'checkReadiness',
        tag: HEALTH,
        summary: 'Whether it can serve',
        description: 'For who decides where requests go. No limit counts it.',
        answers: {
          200: describeReport('It can.', 'ok'),
          503: describeReport(
            'The database does not answer, or the service is stopping.',
            'unavailable',
          ),
        },
      }),
    },
  ]
}

function report(status: number, text: string): Reply {
  return {
    status,
    headers: { 'Cache-Control': 'no-store', ...(status === 503 && { 'Retry-After': '1' }) },
    body: JSON.stringify({ status: text }),
  }
}

function describeReport(description: string, status: string): Answer {
  const schema = component('schemas', status === 'ok' ? 'Healthy' : 'Unhealthy', {
    type: 'object',
    properties: { status: { type: 'string', const: status } },
    required: ['status'],
  })
  return {
    description,
    headers: { ...NO_STORE, ...(status !== 'ok' && { 'Retry-After': RETRY_AFTER }) },
    content: {
      [JSON_TYPE]: { schema, examples: { [status]: { summary: description, value: { status } } } },
    },
  }
}
