import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Position, UserSort } from './user-repository.ts'

/** Half of an HMAC-SHA-256, as RFC 2104 5 allows. */
const SIGNATURE_BYTES = 16

export type Cursors = ReturnType<typeof createCursors>

/** Turns positions in a list into text that clients can keep and send back, but cannot make or alter. */
export function createCursors(key: Buffer) {
  function signatureOf(sort: UserSort, payload: Buffer): Buffer {
    const direction = sort.descending ? '-' : ''
    const hmac = createHmac('sha256', key).update(`${direction}${sort.by}\n`).update(payload)
    return hmac.digest().subarray(0, SIGNATURE_BYTES)
  }

  return {
    encode: (sort: UserSort, position: Position): string => {
      const payload = Buffer.from(JSON.stringify([position.key, position.id]))
      return Buffer.concat([signatureOf(sort, payload), payload]).toString('base64url')
    },

    /** `undefined` for text that `encode` did not make for this sort. */
    decode: (sort: UserSort, text: string): Position | undefined => {
      const bytes = Buffer.from(text, 'base64url')
      // Decoding ignores other characters and spare bits, so that altered text may give the same bytes.
      if (bytes.toString('base64url') !== text || bytes.length <= SIGNATURE_BYTES) return undefined
      const payload = bytes.subarray(SIGNATURE_BYTES)
      const signature = bytes.subarray(0, SIGNATURE_BYTES)
      if (!timingSafeEqual(signature, signatureOf(sort, payload))) return undefined
      const [lastKey, id] = JSON.parse(payload.toString()) as [string, number]
      return { key: lastKey, id }
    },
  }
}
