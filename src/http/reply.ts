import type { Request, Response } from 'express'

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

const JSON_CONTENT_TYPE = 'application/json; charset=utf-8'

/** The only way out: every answer of the application is written here, with its headers in one pass. */
export function sendReply(request: Request, response: Response, reply: Reply): void {
  // Of a request that was refused while it still arrived, the handler may end after the refusal was sent.
  if (response.headersSent) return
  const headers: Record<string, string | number> = {
    ...fixedHeaders(request.id),
    ...reply.headers,
  }
  const otherVary = response.getHeader('Vary')
  if (otherVary !== undefined) headers.Vary = `Accept, ${otherVary}`
  if (reply.body !== undefined) {
    headers['Content-Type'] = reply.type ?? JSON_CONTENT_TYPE
    headers['Content-Length'] = Buffer.byteLength(reply.body)
  }
  response.writeHead(reply.status, headers).end(reply.body)
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
