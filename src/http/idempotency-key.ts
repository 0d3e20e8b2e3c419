import { ServiceError } from '../errors.ts'

const BARE = /^[\x21\x23-\x7e][\x21-\x7e]{0,254}$/

/** A string of RFC 9651 3.3.3 without spaces. */
const QUOTED = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/

const MAX_CHARS = 255

/**
 * The key of an Idempotency-Key header, bare or as a quoted string. Several headers arrive joined by a comma and a space, and
 * no key contains a space. Throws `idempotency_key_malformed`.
 */
export function parseIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  const text = String(header)
  const key = QUOTED.exec(text)?.[1]?.replace(/\\(["\\])/g, '$1')
  if (key !== undefined && key.length <= MAX_CHARS) return key
  if (BARE.test(text)) return text
  throw new ServiceError('idempotency_key_malformed')
}
