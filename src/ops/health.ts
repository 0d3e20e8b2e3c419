import type { Endpoint } from '../http/endpoints.ts'
import type { Reply } from '../http/reply.ts'

export interface HealthOptions {
  /** Rejects when the service cannot answer requests now. */
  readonly ping: () => Promise<void>
  readonly isStopping: () => boolean
}

/** `/livez` says that the process runs, `/readyz` that it is worth sending requests to. */
export function healthRoutes({ ping, isStopping }: HealthOptions): readonly Endpoint[] {
  async function isReady(): Promise<boolean> {
    if (isStopping()) return false
    return ping().then(
      () => true,
      () => false,
    )
  }

  return [
    { method: 'get', path: '/livez', produces: [], handle: () => report(200, 'ok') },
    {
      method: 'get',
      path: '/readyz',
      produces: [],
      handle: async () => ((await isReady()) ? report(200, 'ok') : report(503, 'unavailable')),
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
