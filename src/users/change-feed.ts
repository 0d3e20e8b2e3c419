import type { Request } from 'express'
import { z } from 'zod'
import { INVALID_TOKEN, ServiceError } from '../errors.ts'
import { mountPath } from '../http/forwarded.ts'
import { askedInsteadOfJson } from '../http/negotiation.ts'
import { checkQuery, pageLink, queryParameters, validData, wholeNumber } from '../http/query.ts'
import type { Reply } from '../http/reply.ts'
import { leavingOf, type Send, type StreamReply } from '../http/stream.ts'
import { createChangeWatch, placeOf } from './change-watch.ts'
import { decodeChangeCursor, encodeChangeCursor } from './cursor.ts'
import {
  type ChangePage,
  type ChangePosition,
  changeJson,
  type UserChange,
  type UserChanges,
} from './user-changes.ts'

export const EVENT_STREAM_TYPE = 'text/event-stream'

/** Proxies close connections on which nothing comes for some time, often 60 seconds. */
const COMMENT_MS = 15_000

/** The longest page, which is what all that follow share. Shorter ones are cut from it. */
const MAX_LIMIT = 1000

const cursor = <T>(decode: (text: string) => T | undefined) =>
  z
    .string()
    .transform(decode)
    .refine(position => position !== undefined, 'is not a cursor of changes')
    .optional()

/** The parameters of `GET /users/changes`. */
export const changeParameters = z.strictObject({
  after: cursor(text => (text === 'now' ? text : decodeChangeCursor(text))).meta({
    description:
      'The cursor `next` of the previous answer; without it, from the beginning. `now` skips all earlier changes.',
    type: 'string',
    minLength: 1,
  }),
  limit: wholeNumber(1, MAX_LIMIT)
    .default(100)
    .meta({
      description: 'The most changes in the answer.',
      examples: [500],
    }),
  wait: wholeNumber(0, 60)
    .default(0)
    .meta({
      description: 'Seconds to wait while there is no change after the cursor.',
      examples: [30],
    }),
})

/** The parameters of a stream. It takes no `now`: if it broke off before its first event, it could not continue there. */
const streamParameters = z.strictObject({
  after: cursor(decodeChangeCursor),
  lastEventId: cursor(decodeChangeCursor),
})

export interface ChangeFeedOptions {
  readonly changes: UserChanges
  /** Requests that may wait or stream at a time. */
  readonly maxWaiting: number
  /** Whether a client may still wait: its API key may have been revoked. */
  readonly isAllowed: (request: Request) => boolean
}

export type ChangeFeed = ReturnType<typeof createChangeFeed>

/** `GET /users/changes` in its forms: a page, a page that is waited for, and a stream of events. */
export function createChangeFeed({ changes, maxWaiting, isAllowed }: ChangeFeedOptions) {
  let streaming = 0
  let waiting = 0
  let hasEnded = false

  const isFull = () => waiting + streaming >= maxWaiting

  const readShared = shareReads(async after => sharedPage(await changes.read(after, MAX_LIMIT)))
  const watch = createChangeWatch({ last: changes.last, read: readShared })

  const waitAfter = (after: ChangePosition, ms: number, request: Request, leaving: AbortSignal) =>
    watch.wait({ after, ms, leaving, isAllowed: () => isAllowed(request) })

  async function answerPage(request: Request): Promise<Reply> {
    const parameters = queryParameters(request.url)
    const { after, limit, wait } = validData(checkQuery(parameters, changeParameters))
    const page = await changes.read(after, limit)
    let answer = answerOf(page)
    if (wait > 0 && page.changes.length === 0 && !page.hasMore && !isFull()) {
      waiting++
      const newer = waitAfter(page.next, wait * 1000, request, leavingOf(request))
      const news = await newer.finally(() => waiting--)
      if (!isAllowed(request)) throw new ServiceError('key_required', { headers: INVALID_TOKEN })
      if (news !== undefined) answer = news.answer(limit)
    }
    const { next, body } = answer
    const Link = pageLink(`${mountPath(request)}/users/changes`, parameters, { value: next })
    return { status: 200, headers: { Link }, body }
  }

  async function openStream(request: Request): Promise<StreamReply> {
    const after = startOf(request)
    // Only to refuse a cursor that has expired: nothing is written.
    if (request.method === 'HEAD') await changes.read(after, 1)
    return {
      type: EVENT_STREAM_TYPE,
      // A compression, and proxies such as nginx, would otherwise collect events before they pass them on.
      headers: { 'Cache-Control': 'private, no-cache, no-transform', 'X-Accel-Buffering': 'no' },
      isEndless: true,
      isAllowed: () => isAllowed(request) && !hasEnded,
      write: async send => {
        if (isFull()) throw new ServiceError('overloaded')
        streaming++
        try {
          await writeEvents(request, send, after)
        } finally {
          streaming--
        }
      },
    }
  }

  /** Ends without an error when the stream must: its client then connects again, and is told why. */
  async function writeEvents(request: Request, send: Send, after?: ChangePosition): Promise<void> {
    const leaving = leavingOf(request)
    // Keeps no page while it waits: thousands may wait.
    let { events, next, hasMore } = (await readShared(after)).forStream()
    await send(`retry: 1000\n\n${events}`)
    try {
      for (;;) {
        const news = hasMore
          ? await readShared(next)
          : await waitAfter(next, COMMENT_MS, request, leaving)
        if (hasEnded || leaving.aborted || !isAllowed(request)) return
        if (news === undefined) await send(':\n\n')
        else {
          ;({ events, next, hasMore } = news.forStream())
          if (events !== '') await send(events)
        }
      }
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
    }
  }

  return {
    answer: (request: Request): Promise<Reply | StreamReply> => {
      const stream = askedInsteadOfJson([{ type: EVENT_STREAM_TYPE }], request.headers.accept)
      return stream ? openStream(request) : answerPage(request)
    },
    /** How many requests wait or stream now. */
    report: () => ({ waiting, streaming }),
    /** Resolves once there may be a change after a position, or when `leaving` is aborted. For what follows in this process. */
    untilNews: (after: ChangePosition, leaving: AbortSignal): Promise<unknown> =>
      watch.wait({ after, ms: COMMENT_MS, leaving, isAllowed: () => true }),
    /** Call it after a write of this process. */
    touch: watch.touch,
    /** Answers those that wait, and breaks the streams off, also later ones. */
    end: (): void => {
      hasEnded = true
      watch.end()
    },
  }
}

/** Shares a read among all that ask for the same place while it runs: a thousand clients that follow a change cost one read. */
function shareReads<T>(read: (after?: ChangePosition) => Promise<T>) {
  const reading = new Map<string, Promise<T>>()
  return (after?: ChangePosition): Promise<T> => {
    const place = placeOf(after)
    const shared = reading.get(place) ?? read(after).finally(() => reading.delete(place))
    reading.set(place, shared)
    return shared
  }
}

/** A page for all that follow, each of whose texts is made once. */
function sharedPage(page: ChangePage) {
  const answers = new Map<number, ReturnType<typeof answerOf>>()
  let events: string | undefined
  return {
    /** All of it. */
    forStream: () => {
      events ??= page.changes.map(eventText).join('')
      return { events, next: page.next, hasMore: page.hasMore }
    },
    /** The answer to a client that wants up to `limit` changes. */
    answer: (limit: number) => {
      const size = Math.min(limit, page.changes.length)
      const answer = answers.get(size) ?? answerOf(beginningOf(page, size))
      answers.set(size, answer)
      return answer
    },
  }
}

/** A page with the first changes of a longer one. */
function beginningOf(page: ChangePage, size: number): ChangePage {
  const last = page.changes[size - 1]
  if (last === undefined || size === page.changes.length) return page
  return { changes: page.changes.slice(0, size), next: last.position, hasMore: true }
}

/**
 * Where a stream begins: after the last event, which polyfills of EventSource name in the query, or else after `after`. Throws
 * `query_invalid`.
 */
function startOf({ url, headers }: Request): ChangePosition | undefined {
  const sent = queryParameters(url)
  const lastEvent = headers['last-event-id']
  const isByQuery = sent.some(({ name }) => name === 'lastEventId')
  const replaced = lastEvent ? ['after', 'lastEventId'] : isByQuery ? ['after'] : []
  const others = sent.filter(({ name }) => !replaced.includes(name))
  const parameters = lastEvent ? [{ name: 'after', value: String(lastEvent) }, ...others] : others
  const { after, lastEventId } = validData(checkQuery(parameters, streamParameters))
  return lastEventId ?? after
}

function answerOf(page: ChangePage) {
  const next = encodeChangeCursor(page.next)
  const data = page.changes.map(changeJson).join(',')
  return { next, body: `{"data":[${data}],"has_more":${page.hasMore},"next":"${next}"}` }
}

function eventText({ id, user, deletedAt, position }: UserChange): string {
  const [event, data] =
    user === undefined ? ['deletion', `{"id":${id},"deleted_at":"${deletedAt}"}`] : ['user', user]
  return `id: ${encodeChangeCursor(position)}\nevent: ${event}\ndata: ${data}\n\n`
}
