import { createHash, timingSafeEqual } from 'node:crypto'
import type { RequestHandler } from 'express'
import { INVALID_TOKEN, ServiceError } from '../../errors.ts'
import { bearerToken } from '../../http/headers.ts'

export interface TokenOptions {
  /** `undefined` lets everyone in who can connect. */
  readonly token: string | undefined
  /** Without a token, nobody is let in elsewhere. */
  readonly isOnLoopback: () => boolean
}

/** Throws `token_required` for a request without the token, or with another one. */
export function requireToken({ token, isOnLoopback }: TokenOptions): RequestHandler {
  const expected = token === undefined ? undefined : digestOf(token)

  function isKnown(presented: string | undefined): boolean {
    if (expected === undefined) return isOnLoopback()
    // Digests have one length, and comparing them takes the same time wherever they differ.
    return timingSafeEqual(digestOf(presented ?? ''), expected)
  }

  return (request, _response, next) => {
    const presented = bearerToken(request)
    if (isKnown(presented)) next()
    else next(new ServiceError('token_required', presented ? { headers: INVALID_TOKEN } : {}))
  }
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
