import type { Request } from 'express'
import { isFromTrustedProxy } from './express-app.ts'

/** One path without an empty segment, as in `X-Forwarded-Prefix: /accounts`, and what follows it. */
const PREFIX = /^((?:\/[^/,]+)+)\/?$/

/**
 * The path under which clients find this application, for URLs; empty without one: what a trusted proxy has removed, then where
 * another application has mounted this one. It may be a client's text: proxies may pass the header on, and the path of a mount
 * may have a parameter.
 */
export function mountPath(request: Request): string {
  const { headers, baseUrl = '' } = request
  const [, prefix = ''] = PREFIX.exec(String(headers['x-forwarded-prefix'])) ?? []
  return uriPath(prefix !== '' && isFromTrustedProxy(request) ? prefix + baseUrl : baseUrl)
}

/** Escapes what a URI must not contain, such as a stray percent sign. A path of `//x` would name a host. */
export function uriPath(sent: string): string {
  const escaped = sent
    .toWellFormed()
    .replace(/%(?![0-9A-Fa-f]{2})|[^\w.~!$&'()*+,;=:@%/-]/gu, encodeURIComponent)
  return escaped.startsWith('//') ? `/.${escaped}` : escaped
}
