import type { Request } from 'express'
import type { Endpoint } from '../../http/endpoints.ts'
import { jsonReply } from '../../http/json-reply.ts'
import { queryParameters } from '../../http/query-string.ts'
import type { Reply } from '../../http/reply.ts'
import type { Operations } from './operations.ts'

/** `/livez` and `/readyz` as on the public port. `/readyz?verbose=true` has each check by name. */
export function managementHealth({ checks }: Pick<Operations, 'checks'>): readonly Endpoint[] {
  async function handleReadiness(request: Request): Promise<Reply> {
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

  return [
    {
      method: 'get',
      path: '/livez',
      isOpen: true,
      produces: [],
      handle: async () => jsonReply(200, { status: 'ok' }),
    },
    { method: 'get', path: '/readyz', isOpen: true, produces: [], handle: handleReadiness },
  ]
}
