import type { Request, Response } from 'express'

declare global {
  namespace Express {
    interface Request {
      /**
       * What middleware wants on the answer, whichever it will be. Not set on the response itself: a response that
       * has headers before it is written makes Node check and merge all of them one by one, for 10 µs.
       */
      replyHeaders?: Record<string, string> | undefined
    }
  }
}

/** An answer as a value: what an endpoint returns and what a refusal turns into. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The Content-Type; JSON where it is left out. */
  readonly type?: string
}

/** Browsers shall do nothing with an answer but show it. */
const CLOSED_CSP = "default-src 'none'; frame-ancestors 'none'"

/** Users are personal data: no shared cache may keep them, and one's own asks again each time. */
const CACHE_CONTROL = 'private, no-cache'

const BODILESS_STATUSES = new Set([204, 205, 304])

const JSON_CONTENT_TYPE = 'application/json; charset=utf-8'

/** The only way out: every answer of the application is written here, with its headers in one pass. */
export function sendReply(request: Request, response: Response, reply: Reply): void {
  // Of a request that was refused while it still arrived, the handler may end after the refusal was sent.
  if (response.headersSent) return
  const headers: Record<string, string | number> = {
    ...fixedHeaders(request.id),
    ...request.replyHeaders,
    ...reply.headers,
  }
  const otherVary = response.getHeader('Vary')
  if (otherVary !== undefined) headers.Vary = `Accept, ${otherVary}`
  const body = BODILESS_STATUSES.has(reply.status) ? undefined : reply.body
  if (body !== undefined) {
    headers['Content-Type'] ??= reply.type ?? JSON_CONTENT_TYPE
    headers['Content-Length'] = Buffer.byteLength(body)
  }
  response.writeHead(reply.status, headers).end(body)
}

/** What every answer bears, unless it says otherwise. */
export function fixedHeaders(requestId: string): Readonly<Record<string, string>> {
  return {
    'X-Request-Id': requestId,
    'Cache-Control': CACHE_CONTROL,
    Vary: 'Accept',
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy': CLOSED_CSP,
  }
}
