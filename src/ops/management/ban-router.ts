import type { Request, Router } from 'express'
import { pageLink, queryParameters } from '../../http/query.ts'
import { jsonReply, type Reply } from '../../http/reply.ts'
import { acceptJson, createRouter, type RouteParts } from '../../http/router.ts'
import { type Ban, type BanPage, jsonOf } from '../../limits/ban-store.ts'
import { encodeBanCursor, parseBanLift, parseBanList, parseBanOrder } from './ban-requests.ts'
import type { Operations } from './operations.ts'

export interface BanRouterOptions {
  readonly operations: Pick<Operations, 'bans'>
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** The bans in force: to list, to add and to lift. */
export function createBanRouter(
  { operations, now }: BanRouterOptions,
  { answer, readBody, otherMethods }: RouteParts,
): Router {
  async function list(request: Request): Promise<Reply> {
    const parameters = queryParameters(request.url)
    const page = await operations.bans.list(parseBanList(parameters, await importKeys()))
    const link = linkToNext(page, parameters)
    return jsonReply(200, page.bans.map(represent), link === undefined ? {} : { Link: link })
  }

  async function add({ body }: Request): Promise<Reply> {
    return jsonReply(201, represent(await operations.bans.add(parseBanOrder(body))))
  }

  async function lift(request: Request): Promise<Reply> {
    const selection = parseBanLift(queryParameters(request.url), await importKeys())
    return jsonReply(200, { lifted: await operations.bans.lift(selection) })
  }

  const represent = (ban: Ban) => jsonOf(ban, now())
  const router = createRouter()
  router
    .route('/bans')
    .get(acceptJson, answer(list))
    .post(acceptJson, readBody, answer(add))
    .delete(answer(lift))
    .all(otherMethods)
  return router
}

/** Only where bans are asked for: the list of public suffixes takes 5 MB and 50 ms. */
const importKeys = async () => (await import('../../limits/rules/client-key.ts')).possibleKeys

function linkToNext(
  { bans, hasMore }: BanPage,
  parameters: ReturnType<typeof queryParameters>,
): string | undefined {
  const last = bans.at(-1)
  if (!hasMore || last === undefined) return undefined
  return pageLink('/bans', parameters, { value: encodeBanCursor(last) })
}
