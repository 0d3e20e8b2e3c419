import { once } from 'node:events'
import type { Request, Response } from 'express'
import { endResponse } from './before-end.ts'
import { beginReply, type Reply } from './reply.ts'

/** A response whose body is made while it is sent. */
export interface StreamReply extends Pick<Reply, 'headers'> {
  readonly type: string
  /**
   * Ends when the body is complete. What it throws before it sends anything is answered as an error. Later it breaks the
   * response off, so that a part of it never looks whole.
   */
  write(sink: Sink): Promise<void>
}

export interface Sink {
  /** Resolves once the client has taken enough for more. Rejects once it is gone. */
  send(text: string): Promise<void>
  /** Aborted once the client is gone. */
  readonly signal: AbortSignal
}

/** Aborted once the response is sent or its client is gone. */
function closingOf(request: Request): AbortSignal {
  const response = request.res as Response
  const closing = new AbortController()
  if (response.closed) closing.abort()
  else response.once('close', () => closing.abort())
  return closing.signal
}

/**
 * Also aborted once the client has closed its side of the connection. It may still read, but until something is sent to
 * it, it looks like a client that is gone.
 */
export function leavingOf(request: Request): AbortSignal {
  const { socket } = request
  const response = request.res as Response
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  if (response.closed || socket.readableEnded) leave()
  else {
    socket.once('end', leave)
    response.once('close', () => {
      socket.off('end', leave)
      leave()
    })
  }
  return leaving.signal
}

/**
 * Sends a stream at the pace of its client. What `write` throws is thrown, unless the client is gone. It is not called if the
 * client is gone before, so whatever it begins it can end by the signal.
 */
export async function sendStream(
  request: Request,
  response: Response,
  { write, ...head }: StreamReply,
): Promise<void> {
  const signal = closingOf(request)
  if (signal.aborted) return
  const begin = () => {
    if (response.headersSent) return
    beginReply(request, response, { status: 200, ...head })
    response.flushHeaders()
  }
  try {
    if (request.method !== 'HEAD') await write({ signal, send })
    begin()
    endResponse(response)
  } catch (error) {
    if (!signal.aborted) throw error
  }

  async function send(text: string): Promise<void> {
    signal.throwIfAborted()
    begin()
    if (!response.write(text)) await once(response, 'drain', { signal })
  }
}
