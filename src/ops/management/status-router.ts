import type { Request, Router } from 'express'
import { z } from 'zod'
import { checkQuery, instantMs, instantText, queryParameters, validData } from '../../http/query.ts'
import { jsonReply, type Reply } from '../../http/reply.ts'
import { acceptJson, createRouter, type RouteParts } from '../../http/router.ts'
import type { Operations } from './operations.ts'
import type { StatusHistory } from './status-history.ts'
import { statusOf } from './status-of.ts'

export interface StatusRouterOptions {
  readonly operations: Pick<Operations, 'report' | 'checks'>
  readonly history: Pick<StatusHistory, 'read'>
  readonly version: string
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** `GET /status`. With `since` its history has only the samples after that time. */
export function createStatusRouter(
  options: StatusRouterOptions,
  { answer, otherMethods }: RouteParts,
): Router {
  const { operations, history, version, now } = options

  async function handle(request: Request): Promise<Reply> {
    const since = parseSince(request.url)
    const [report, readiness] = await Promise.all([operations.report(), operations.checks()])
    const past = history.read(since)
    return jsonReply(200, statusOf(report, { ...readiness, version, now: now(), history: past }))
  }

  const router = createRouter()
  router.route('/status').get(acceptJson, answer(handle)).all(otherMethods)
  return router
}

const statusParameters = z.strictObject({
  since: instantText().transform(instantMs).optional(),
})

/** Milliseconds since the epoch. Throws `query_invalid`. Other parameters are ignored. */
function parseSince(url: string): number | undefined {
  const parameters = queryParameters(url).filter(({ name }) => name === 'since')
  return validData(checkQuery(parameters, statusParameters)).since
}
