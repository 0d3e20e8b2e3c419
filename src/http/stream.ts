import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Request, Response } from 'express'
import { clearInterval, performance, setInterval } from '../platform/timers.ts'
import { beginReply, breakOff, type Reply } from './reply.ts'

/** How long a client may take nothing of what is sent to it. */
export const TAKE_MS = 30_000

/** A stream must end within two seconds after its key is revoked. The keys in memory may be one second late. */
const CHECK_MS = 750

/** Sends a part of a stream. Resolves once the client has taken enough for more. Rejects once it is gone. */
export type Send = (text: string) => Promise<void>

/** A response whose body is made while it is sent. */
export interface StreamReply extends Pick<Reply, 'headers'> {
  readonly type: string
  /**
   * Ends when the body is complete. What it throws before it sends anything is answered as an error. Later it breaks the
   * response off, so that a part of it never looks whole.
   */
  write(send: Send): Promise<void>
  /** Whether the body has no end. When `write` ends, the response is broken off, so that its client asks again. */
  readonly isEndless?: true
  /** Whether the client may still get it. If not, `write` ends, but it may wait for a client that takes nothing. */
  isAllowed?(): boolean
}

/**
 * Aborted once the response is sent or its client is gone, or has closed its side of the connection. It may still read then, but
 * until something is sent to it, it looks like a client that is gone.
 */
export function leavingOf(request: Request): AbortSignal {
  const { socket } = request
  const response = request.res as Response
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  if (response.closed || socket.readableEnded) leave()
  else {
    // The socket of serverless-http has no events.
    socket.once?.('end', leave)
    response.once('close', () => {
      socket.off?.('end', leave)
      leave()
    })
  }
  return leaving.signal
}

/**
 * Sends a stream at the pace of its client, and breaks it off when that takes nothing for `TAKE_MS`, or takes nothing and is not
 * allowed to have it. What `write` throws is thrown, unless the client is gone. It is not called if the client is gone before.
 */
export async function sendStream(
  request: Request,
  response: Response,
  { write, isEndless, isAllowed = () => true, ...head }: StreamReply,
): Promise<void> {
  if (response.closed) return
  const closing = new AbortController()
  const { signal } = closing
  const stalledMs = watchTaking(request.socket)
  const checking = setInterval(() => {
    const isOver = response.writableLength > 0 && !isAllowed()
    if (isOver || stalledMs() >= TAKE_MS) breakOff(response)
  }, CHECK_MS).unref()
  const end = () => {
    clearInterval(checking)
    closing.abort()
  }
  // A response that has no connection, as in a function of a cloud, is never closed.
  response.once('finish', end).once('close', end)
  const begin = () => {
    if (response.headersSent) return
    beginReply(request, response, { status: 200, ...head })
    response.flushHeaders()
  }
  try {
    const isHead = request.method === 'HEAD'
    if (!isHead) await write(send)
    begin()
    if (isEndless && !isHead) breakOff(response)
    else response.end()
  } catch (error) {
    if (!signal.aborted) throw error
  }

  async function send(text: string): Promise<void> {
    signal.throwIfAborted()
    begin()
    // Under serverless-http, which collects the response, it returns nothing and never drains.
    if (response.write(text) === false) await once(response, 'drain', { signal })
  }
}

/**
 * Returns a function that tells for how many milliseconds a client has taken nothing, although something waits for it. It counts
 * from one call to the next.
 */
export function watchTaking(socket: Socket): () => number {
  let takenBytes: number | undefined
  let takenMs = 0
  return () => {
    const nowMs = performance.now()
    const nowTakenBytes = countTakenBytes(socket)
    if (socket.writableLength === 0 || nowTakenBytes !== takenBytes) {
      takenBytes = nowTakenBytes
      takenMs = nowMs
    }
    return nowMs - takenMs
  }
}

/**
 * How many bytes the system has accepted. `writeQueueSize`, which Node's own socket timeouts use as well, is the only count
 * that changes before a write is finished, which takes a slow client minutes.
 */
function countTakenBytes(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { _handle?: { writeQueueSize?: number } | null }
  return socket.bytesWritten - socket.writableLength - (handle?.writeQueueSize ?? 0)
}
