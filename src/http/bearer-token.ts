import type { Request } from 'express'
import { countHeader } from './header-count.ts'

const SCHEME = 'bearer '

/** The text after `Bearer`; `undefined` without such a header, and for several: Node keeps only the first. */
export function bearerToken({
  headers: { authorization },
  rawHeaders,
}: Request): string | undefined {
  if (authorization?.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return undefined
  if (countHeader(rawHeaders, 'authorization') > 1) return undefined
  let start = SCHEME.length
  while (authorization[start] === ' ') start++
  return authorization.slice(start)
}
