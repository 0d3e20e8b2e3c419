import { createHash, timingSafeEqual } from 'node:crypto'
import type { Request, RequestHandler } from 'express'
import { ServiceError } from '../../errors.ts'
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

  function isKnown(request: Request): boolean {
    if (expected === undefined) return isOnLoopback()
    // Digests have one length, and comparing them takes the same time wherever they differ.
    return timingSafeEqual(digestOf(bearerToken(request) ?? ''), expected)
  }

  return (request, _response, next) => {
    next(isKnown(request) ? undefined : new ServiceError('token_required'))
  }
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
