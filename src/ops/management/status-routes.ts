import type { Request } from 'express'
import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import type { Endpoint } from '../../http/endpoints.ts'
import { queryParameters } from '../../http/query-string.ts'
import type { Reply } from '../../http/reply.ts'
import { jsonReply } from './json-reply.ts'
import type { Operations } from './operations.ts'
import type { StatusHistory } from './status-history.ts'
import { statusOf } from './status-of.ts'

export interface StatusRoutesOptions {
  readonly operations: Pick<Operations, 'report' | 'checks'>
  readonly history: Pick<StatusHistory, 'read' | 'recent'>
  readonly version: string
}

/** `GET /status`. With `since` its history has only the samples after that time. */
export function statusRoutes(options: StatusRoutesOptions): readonly Endpoint[] {
  const { operations, history, version } = options

  async function handle(request: Request): Promise<Reply> {
    const since = parseSince(request.url)
    const [report, readiness] = await Promise.all([operations.report(), operations.checks()])
    const status = statusOf(report, {
      ...readiness,
      version,
      now: Date.now(),
      history: history.read(since),
      recent: history.recent(report.requests.series),
    })
    return jsonReply(200, status)
  }

  return [{ method: 'get', path: '/status', handle }]
}

const INSTANT = z.iso.datetime({ offset: true })

/** Milliseconds since the epoch. Throws `query_invalid`. */
function parseSince(url: string): number | undefined {
  const values = queryParameters(url).filter(({ name }) => name === 'since')
  if (values.length === 0) return undefined
  // A plus that was not percent-encoded arrives as a space.
  const text = values[0]?.value?.replace(' ', '+')
  if (values.length > 1) throw invalid('is given more than once')
  if (!INSTANT.safeParse(text).success)
    throw invalid('must be an ISO 8601 instant with Z or an offset')
  return Date.parse(text ?? '')
}

function invalid(message: string): ServiceError {
  const errors = [{ field: 'since', at: { parameter: 'since' }, messages: [message] }]
  return new ServiceError('query_invalid', { errors })
}
