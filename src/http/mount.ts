import type { Request } from 'express'

/**
 * The path under which another application has mounted this one, for URLs; empty without one. Where the mount has a parameter,
 * clients choose what it is.
 */
export function mountPath({ baseUrl }: Request): string {
  return uriPath(baseUrl)
}

/** Escapes what a URI must not contain, such as a stray percent sign. A path of `//x` would name a host. */
export function uriPath(sent: string): string {
  const escaped = sent
    .toWellFormed()
    .replace(/%(?![0-9A-Fa-f]{2})|[^\w.~!$&'()*+,;=:@%/-]/gu, encodeURIComponent)
  return escaped.startsWith('//') ? `/.${escaped}` : escaped
}
