import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { ChangePosition } from './user-changes.ts'
import type { Position, UserSort } from './user-repository.ts'

/** Half of an HMAC-SHA-256, as RFC 2104 5 allows. */
const SIGNATURE_BYTES = 16

export type Cursors = ReturnType<typeof createCursors>

/** Turns positions in a list into text that clients can keep and send back, but cannot make or alter. */
export function createCursors(key: Buffer) {
  const signatureFor = (sort: UserSort) => (payload: Buffer) => {
    const direction = sort.descending ? '-' : ''
    const hmac = createHmac('sha256', key).update(`${direction}${sort.by}\n`).update(payload)
    return hmac.digest().subarray(0, SIGNATURE_BYTES)
  }

  return {
    encode: (sort: UserSort, position: Position): string =>
      seal([position.key, position.id], signatureFor(sort)),

    /** `undefined` for text that `encode` did not make for this sort. */
    decode: (sort: UserSort, text: string): Position | undefined => {
      const payload = unseal(text, SIGNATURE_BYTES, signatureFor(sort))
      if (payload === undefined) return undefined
      const [lastKey, id] = JSON.parse(payload) as [string, number]
      return { key: lastKey, id }
    },
  }
}

/** A check against mistakes. It needs no secret, because a position in the feed reveals nothing and permits nothing. */
const CHECK_BYTES = 6

/** The number of a transaction, or of a revision. Both engines can compare numbers of this length. */
const xid = z.string().regex(/^\d{1,18}$/)

const userId = z.int().nonnegative()

/** Anyone who reads the source can make a valid check for any payload, so the types of its values are checked too. */
const positions = z.tuple([z.string(), xid, userId, xid])

/** A position in the feed of changes as text that clients keep and send back. */
export function encodeChangeCursor({ mark, key, id, since }: ChangePosition): string {
  return seal([mark, key, id, since], checkOf)
}

/**
 * The cursor of the beginning of the feed, for a reader who has come to another cursor: it expires with the deletions after that
 * one. Text that is no cursor stays as it is.
 */
export function encodeBeginning(text: string): string {
  const position = decodeChangeCursor(text)
  if (position === undefined) return text
  const { mark, key, since } = position
  const known = BigInt(key) > BigInt(since) ? key : since
  return encodeChangeCursor({ mark, key: '0', id: 0, since: known })
}

/** `undefined` for text that `encodeChangeCursor` cannot have made, for any database. */
export function decodeChangeCursor(text: string): ChangePosition | undefined {
  const payload = unseal(text, CHECK_BYTES, checkOf)
  if (payload === undefined) return undefined
  try {
    const [mark, key, id, since] = positions.parse(JSON.parse(payload))
    return { mark, key, id, since }
  } catch {
    return undefined
  }
}

function checkOf(payload: Buffer): Buffer {
  return createHash('sha256').update('changes\n').update(payload).digest().subarray(0, CHECK_BYTES)
}

/** Values with a check before them, as text for URLs. */
function seal(values: readonly unknown[], makeCheck: (payload: Buffer) => Buffer): string {
  const payload = Buffer.from(JSON.stringify(values))
  return Buffer.concat([makeCheck(payload), payload]).toString('base64url')
}

/** The JSON of the values; `undefined` if the check is wrong. */
function unseal(
  text: string,
  checkBytes: number,
  makeCheck: (payload: Buffer) => Buffer,
): string | undefined {
  const bytes = Buffer.from(text, 'base64url')
  // Decoding ignores other characters and spare bits, so altered text may give the same bytes.
  if (bytes.toString('base64url') !== text || bytes.length <= checkBytes) return undefined
  const payload = bytes.subarray(checkBytes)
  const isRight = timingSafeEqual(bytes.subarray(0, checkBytes), makeCheck(payload))
  return isRight ? payload.toString() : undefined
}
