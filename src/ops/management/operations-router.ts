import type { Request, Router } from 'express'
import { z } from 'zod'
import {
  checkQuery,
  instantMs,
  instantText,
  pageLink,
  queryParameters,
  validData,
} from '../../http/query.ts'
import { jsonReply, type Reply } from '../../http/reply.ts'
import { accept, acceptJson, createRouter, type RouteParts } from '../../http/router.ts'
import { type Ban, jsonOf } from '../../limits/ban-store.ts'
import type { BanControl } from '../../limits/kinds/ban-control.ts'
import type { RuleChanges } from '../../limits/kinds/limiter.ts'
import type { Clocks } from '../../platform/clocks.ts'
import { withinPatience } from '../../platform/patience.ts'
import type { UserRouterOptions } from '../../users/user-router.ts'
import type { ShownWebhook } from '../../webhooks/describe-webhooks.ts'
import type { CheckReadiness } from '../health.ts'
import { type Metrics, PROMETHEUS_TYPE } from '../metrics/create-metrics.ts'
import type { ServiceCounts, ServiceReport } from '../metrics/service-report.ts'
import { encodeBanCursor, parseBanLift, parseBanList, parseBanOrder } from './ban-requests.ts'
import { ruleStatusOf, statusOf } from './service-status.ts'
import type { StatusHistory } from './status-history.ts'

/** What the management port asks of the service. */
export interface Operations {
  report(): Promise<ServiceReport>
  count(): Promise<ServiceCounts>
  countUsers(): Promise<number | undefined>
  describeWebhooks(): Promise<readonly ShownWebhook[]>
  readonly metrics: Pick<Metrics, 'report' | 'render'>
  readonly clocks: Clocks
  readonly checks: CheckReadiness
  readonly bans: BanControl
  readonly users: UserRouterOptions
  /** Makes reads that begin after this call see everything that was committed before it. */
  readAnew(): void
  /**
   * Puts the limits file in force again; `undefined` without LIMITS_FILE. Throws `limits_invalid` and `reload_failed`: the
   * previous rules then stay in force. The log has the result too.
   */
  reloadLimits(): Promise<RuleChanges | undefined>
}

export interface OperationsRouterOptions {
  readonly operations: Operations
  readonly history: Pick<StatusHistory, 'read'>
}

/** As for a report: the page must see a database that hangs, and not hang with it. */
const COUNT_MS = 500

/** `undefined` if the database fails, or takes longer. */
const ifInTime = <T>(answer: Promise<T>) => withinPatience(COUNT_MS, answer).catch(() => undefined)

/** What only operators may ask: status and metrics, the rules of the limits, and bans. */
export function createOperationsRouter(
  { operations, history }: OperationsRouterOptions,
  { answer, readBody, otherMethods }: RouteParts,
): Router {
  const { bans, metrics, clocks } = operations

  async function showStatus({ url }: Request): Promise<Reply> {
    const since = parseSince(url)
    const report = await operations.report()
    // After the report, in which this would be a call that waits.
    const [users, webhooks] = await Promise.all([
      ifInTime(operations.countUsers()),
      ifInTime(operations.describeWebhooks()),
    ])
    const counted = { ...metrics.report(), users, webhooks }
    return jsonReply(
      200,
      statusOf(report, { counted, now: clocks.now(), history: history.read(since) }),
    )
  }

  async function showMetrics(): Promise<Reply> {
    const rendered = await metrics.render(await operations.report())
    return { status: 200, headers: { 'Cache-Control': 'no-store' }, ...rendered }
  }

  async function listRules(): Promise<Reply> {
    const { limits } = await operations.count()
    return jsonReply(200, (limits?.rules ?? []).map(ruleStatusOf))
  }

  async function reloadLimits(): Promise<Reply> {
    const changes = await operations.reloadLimits()
    const noFile = { reloaded: false, message: 'LIMITS_FILE is not set' }
    return jsonReply(200, changes === undefined ? noFile : { reloaded: true, ...changes })
  }

  async function inJson(found: readonly Ban[]) {
    const moment = await bans.moment()
    return found.map(ban => jsonOf(ban, moment))
  }

  async function listBans({ url }: Request): Promise<Reply> {
    const parameters = queryParameters(url)
    const page = await bans.list(await parseBanList(parameters))
    const body = await inJson(page.bans)
    const last = page.bans.at(-1)
    if (!page.hasMore || last === undefined) return jsonReply(200, body)
    const next = pageLink('/bans', parameters, { value: encodeBanCursor(last) })
    return jsonReply(200, body, { Link: next })
  }

  async function addBan({ body, id }: Request): Promise<Reply> {
    const [ban] = await inJson([await bans.add(parseBanOrder(body), id)])
    return jsonReply(201, ban)
  }

  async function liftBans({ url, id }: Request): Promise<Reply> {
    const selection = await parseBanLift(queryParameters(url))
    return jsonReply(200, { lifted: await bans.lift(selection, id) })
  }

  const router = createRouter()
  router.route('/status').get(acceptJson, answer(showStatus)).all(otherMethods)
  router.route('/metrics').get(accept(PROMETHEUS_TYPE), answer(showMetrics)).all(otherMethods)
  router.route('/limits').get(acceptJson, answer(listRules)).all(otherMethods)
  // It needs no body, but one of a page's form is refused by its type.
  router.route('/limits/reload').post(acceptJson, readBody, answer(reloadLimits)).all(otherMethods)
  router
    .route('/bans')
    .get(acceptJson, answer(listBans))
    .post(acceptJson, readBody, answer(addBan))
    .delete(answer(liftBans))
    .all(otherMethods)
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
