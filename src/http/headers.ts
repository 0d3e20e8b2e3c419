import type { IncomingMessage } from 'node:http'
import type { Request } from 'express'
import { ServiceError } from '../errors.ts'

/** Every value of a header. Node keeps only the first of some that were sent several times, and joins others. */
export function headerValues(
  { rawHeaders, headers }: Pick<IncomingMessage, 'headers' | 'rawHeaders'>,
  lowerCaseName: string,
): readonly string[] {
  // Node's headersDistinct would parse all headers for this one.
  // serverless-http leaves them out.
  if (rawHeaders.length === 0) return [headers[lowerCaseName] ?? []].flat()
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    const isSame = name.length === lowerCaseName.length && name.toLowerCase() === lowerCaseName
    if (isSame) values.push(rawHeaders[index + 1] as string)
  }
  return values
}

const SCHEME = 'bearer '

/** The text after `Bearer`; `undefined` without one, and empty for several headers, of which Node keeps only the first. */
export function bearerToken(request: Request): string | undefined {
  const { authorization } = request.headers
  if (authorization === undefined) return undefined
  if (headerValues(request, 'authorization').length > 1) return ''
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return undefined
  return authorization.slice(SCHEME.length).replace(/^ +/, '')
}

const BARE_KEY = /^[\x21\x23-\x7e][\x21-\x7e]{0,254}$/

/** A string of RFC 9651 3.3.3 without spaces. */
const QUOTED_KEY = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255})"$/

/**
 * The key of an Idempotency-Key header, bare or as a quoted string. Several headers arrive joined by a comma and a space, and
 * no key contains a space. Throws `idempotency_key_malformed`.
 */
export function parseIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  const text = String(header)
  const key = QUOTED_KEY.exec(text)?.[1]?.replace(/\\(["\\])/g, '$1')
  if (key !== undefined || BARE_KEY.test(text)) return key ?? text
  throw new ServiceError('idempotency_key_malformed')
}

/**
 * One preference with the comma after it: RFC 7240 2. Only one part of the pattern can match a given blank, as in `TAG` below.
 */
const PREFERENCE =
  /[ \t]*(?:([\w!#$%&'*+.^`|~-]+)[ \t]*(?:=[ \t]*(?:(?:"((?:[^"\\]|\\.)*)"|([\w!#$%&'*+.^`|~-]+))[ \t]*)?)?(?:;(?:[^",]|"(?:[^"\\]|\\.)*")*)?)?(?:,|$)/y

/** Whether a Prefer header asks for `handling=strict`. The first `handling` counts; what is malformed ends the list. */
export function prefersStrictHandling(header: string | string[] | undefined): boolean {
  if (header === undefined) return false
  const text = String(header)
  PREFERENCE.lastIndex = 0
  while (PREFERENCE.lastIndex < text.length) {
    const [, name, quoted, bare] = PREFERENCE.exec(text) ?? []
    if (name?.toLowerCase() === 'handling') {
      const value = bare ?? quoted?.replace(/\\(.)/g, '$1')
      return value?.toLowerCase() === 'strict'
    }
    if (PREFERENCE.lastIndex === 0) return false
  }
  return false
}

/** Version, id of the trace, id of the span, flags; only later versions may have more. Several headers arrive joined by a comma. */
const TRACEPARENT =
  /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(-[^,]*)?$/

/**
 * The id of the trace that a request belongs to: 32 hexadecimal digits of its `traceparent`. `undefined` if the header is
 * absent, invalid or sent twice: W3C Trace Context 3.2.2 and 4.3.
 */
export function traceIdOf({ headers: { traceparent } }: Request): string | undefined {
  if (traceparent === undefined) return undefined
  const [, version, traceId, more] = TRACEPARENT.exec(String(traceparent)) ?? []
  return version === '00' && more !== undefined ? undefined : traceId
}

/** RFC 9110 8.8.3 and 13.1. */
interface EntityTag {
  readonly isWeak: boolean
  readonly opaque: string
}

/**
 * One member of a list of entity tags, with the comma after it. Only one part of the pattern can match a given blank:
 * when two parts could, 16 KB of blanks took 260 ms.
 */
const TAG = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y

/** The strong entity tag of a version. `version` must be printable ASCII without quotes. */
export function entityTag(version: string): string {
  return `"${version}"`
}

/** Whether If-Match allows a version: a list of tags or `*`. A weak tag allows none, and neither does a malformed header. */
export function matchesIfMatch(ifMatch: string | undefined, version: string): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return true
  return parseEntityTags(ifMatch).some(({ isWeak, opaque }) => !isWeak && opaque === version)
}

/**
 * The condition that If-Match and If-None-Match set for a write, on the current version; `undefined` without either: RFC
 * 9110 13.2.2.
 */
export function preconditionOf({
  'if-match': ifMatch,
  'if-none-match': ifNoneMatch,
}: IncomingMessage['headers']): ((version: string) => boolean) | undefined {
  if (ifMatch === undefined && ifNoneMatch === undefined) return undefined
  return version => matchesIfMatch(ifMatch, version) && !matchesIfNoneMatch(ifNoneMatch, version)
}

/** Whether If-None-Match says that the client has this version. */
export function matchesIfNoneMatch(ifNoneMatch: string | undefined, version: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return parseEntityTags(ifNoneMatch).some(({ opaque }) => opaque === version)
}

function parseEntityTags(header: string): readonly EntityTag[] {
  const tags: EntityTag[] = []
  TAG.lastIndex = 0
  while (TAG.lastIndex < header.length) {
    const member = TAG.exec(header)
    if (member === null) return []
    const [, weak, opaque] = member
    if (opaque !== undefined) tags.push({ isWeak: weak !== undefined, opaque })
  }
  return tags
}
