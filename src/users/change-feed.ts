import type { Request, Response } from 'express'
import { z } from 'zod'
import { INVALID_TOKEN, ServiceError } from '../errors.ts'
import { mountPath } from '../http/mount.ts'
import { asksInsteadOfJson } from '../http/negotiation.ts'
import {
  checkQuery,
  pageLink,
  queryParameters,
  type SentParameter,
  validData,
  wholeNumber,
} from '../http/query.ts'
import type { Reply } from '../http/reply.ts'
import { leavingOf, type Sink, type StreamReply } from '../http/stream.ts'
import type { ChangeWatch } from './change-watch.ts'
import { decodeChangeCursor, encodeChangeCursor } from './cursor.ts'
import type { ChangePage, ChangePosition, UserChange, UserChanges } from './user-changes.ts'

export const EVENT_STREAM_TYPE = 'text/event-stream'

/** Proxies close connections on which nothing comes for some time, often 60 seconds. */
const COMMENT_MS = 15_000

const STREAM_PAGE = 500

/** A stream must end within two seconds after its key is revoked. The keys in memory may be one second late. */
const CHECK_MS = 750

/** How long a stream may take to end at a stop. Its client goes on with another service after the last whole event. */
const LAST_MS = 500

/** The parameters of `GET /users/changes`. */
export const changeParameters = z.strictObject({
  after: z
    .string()
    .optional()
    .meta({
      description: 'The cursor `next` of the previous answer; without it, from the beginning.',
      minLength: 1,
      examples: ['k3Jd0a4zWyI5ZjQ0ZTU3M2Q3YTAiLDEsIjQyIiw3XQ'],
    }),
  limit: wholeNumber(1, 1000)
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

/** Those of a stream. */
const streamParameters = changeParameters.pick({ after: true })

export interface ChangeFeedOptions {
  readonly changes: UserChanges
  readonly watch: ChangeWatch
  /** Requests that may wait or stream at a time. */
  readonly maxWaiting: number
  /** Whether a client may still wait: its API key may have been revoked. */
  readonly isAllowed: (request: Request) => boolean
}

export type ChangeFeed = ReturnType<typeof createChangeFeed>

/** `GET /users/changes` in its forms: a page, a page that is waited for, and a stream of events. */
export function createChangeFeed({ changes, watch, maxWaiting, isAllowed }: ChangeFeedOptions) {
  /** Pages that are being read: a thousand clients that wait for the same change share one read. */
  const reading = new Map<string, Promise<ChangePage>>()
  let streaming = 0
  let waiting = 0

  function readShared(after: ChangePosition, limit: number): Promise<ChangePage> {
    const key = `${encodeChangeCursor(after)} ${limit}`
    const shared = reading.get(key) ?? changes.read(after, limit).finally(() => reading.delete(key))
    reading.set(key, shared)
    return shared
  }

  const isFull = () => waiting + streaming >= maxWaiting

  async function readPage(request: Request): Promise<Reply> {
    const parameters = queryParameters(request.url)
    const { after, limit, wait } = parseQuery(parameters, changeParameters)
    let page = await changes.read(after, limit)
    if (wait > 0 && page.changes.length === 0 && !page.hasMore && !isFull()) {
      const leaving = leavingOf(request)
      const allowed = () => isAllowed(request)
      waiting++
      try {
        await watch.wait({ after: page.next, ms: wait * 1000, leaving, isAllowed: allowed })
      } finally {
        waiting--
      }
      if (!allowed()) throw new ServiceError('key_required', { headers: INVALID_TOKEN })
      // A stop answers at once.
      if (!watch.ended.aborted) page = await readShared(page.next, limit)
    }
    const next = encodeChangeCursor(page.next)
    const Link = pageLink(`${mountPath(request)}/users/changes`, parameters, { value: next })
    return { status: 200, headers: { Link }, body: pageJson(page, next) }
  }

  async function openStream(request: Request): Promise<StreamReply> {
    const sent = request.headers['last-event-id']
    const lastEventId = typeof sent === 'string' && sent !== '' ? sent : undefined
    const { after } = parseQuery(queryParameters(request.url), streamParameters, lastEventId)
    if (isFull()) throw new ServiceError('overloaded')
    // Read before the stream begins, so that a wrong cursor is answered as an error.
    const first = await changes.read(after, STREAM_PAGE)
    return {
      type: EVENT_STREAM_TYPE,
      // Proxies such as nginx would otherwise collect events before they pass them on.
      headers: { 'X-Accel-Buffering': 'no' },
      write: async sink => {
        streaming++
        cutOffAtStop(request, sink)
        // A client that takes nothing keeps `send` waiting, and would keep the end waiting too.
        const checking = setInterval(() => {
          const response = request.res as Response
          if (response.writableLength > 0 && !isAllowed(request)) response.destroy()
        }, CHECK_MS)
        sink.signal.addEventListener('abort', () => clearInterval(checking))
        try {
          await writeEvents(request, sink, first)
        } finally {
          streaming--
        }
      },
    }
  }

  /** A client that takes nothing would hold up the stop. */
  function cutOffAtStop(request: Request, { signal }: Sink): void {
    const cutOff = () => setTimeout(() => request.res?.destroy(), LAST_MS).unref()
    if (watch.ended.aborted) cutOff()
    else watch.ended.addEventListener('abort', cutOff, { signal })
  }

  /** Ends without an error when the stream must: its client then connects again, and is told why. */
  async function writeEvents(request: Request, sink: Sink, first: ChangePage): Promise<void> {
    const allowed = () => isAllowed(request)
    const leaving = leavingOf(request)
    let text = 'retry: 1000\n\n'
    let page = first
    for (;;) {
      text += page.changes.map(eventText).join('')
      if (text !== '') await sink.send(text)
      text = ''
      if (watch.ended.aborted || !allowed()) return
      const after: ChangePosition = page.next
      if (!page.hasMore) {
        const startedAt = performance.now()
        await watch.wait({ after, ms: COMMENT_MS, leaving, isAllowed: allowed })
        if (watch.ended.aborted || leaving.aborted || !allowed()) return
        if (performance.now() - startedAt >= COMMENT_MS - 1) text = ':\n\n'
      }
      try {
        page = await changes.read(after, STREAM_PAGE)
      } catch (error) {
        if (error instanceof ServiceError) return
        throw error
      }
    }
  }

  return {
    answer: (request: Request): Promise<Reply | StreamReply> => {
      const wantsStream = asksInsteadOfJson(EVENT_STREAM_TYPE, request.headers.accept)
      return wantsStream ? openStream(request) : readPage(request)
    },
    /** How many requests wait or stream now. */
    report: () => ({ waiting, streaming }),
  }
}

function pageJson({ changes, hasMore }: ChangePage, next: string): string {
  return `{"data":[${changes.map(changeJson).join(',')}],"has_more":${hasMore},"next":"${next}"}`
}

function changeJson({ id, user, deletedAt }: UserChange): string {
  return user === undefined
    ? `{"id":${id},"user":null,"deleted_at":"${deletedAt}"}`
    : `{"id":${id},"user":${user}}`
}

function eventText({ id, user, deletedAt, position }: UserChange): string {
  const [event, data] =
    user === undefined ? ['deletion', `{"id":${id},"deleted_at":"${deletedAt}"}`] : ['user', user]
  return `id: ${encodeChangeCursor(position)}\nevent: ${event}\ndata: ${data}\n\n`
}

/** Throws `query_invalid` with every wrong parameter. The id of the last event counts before `after`. */
function parseQuery<T extends { after?: string | undefined }>(
  parameters: readonly SentParameter[],
  schema: z.ZodType<T>,
  lastEventId?: string,
) {
  const checked = checkQuery(parameters, schema)
  const { data, errors } = checked
  const text = lastEventId ?? data?.after
  const after = text === undefined ? undefined : decodeChangeCursor(text)
  if (text !== undefined && after === undefined && !errors.has('after')) {
    errors.set('after', 'is not a cursor of changes')
  }
  return { ...validData(checked), after }
}
