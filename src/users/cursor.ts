import { hash, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { Position, UserSort } from './user-repository.ts'

/** Positions of a list as text for clients, who can keep it and hand it back but not make or alter it. */
export interface Cursors {
  encode(sort: UserSort, position: Position): string
  /** `undefined` for text that was not made by `encode` for the same sort. */
  decode(sort: UserSort, text: string): Position | undefined
}

/** Half of an HMAC-SHA-256, as RFC 2104 5 allows. */
const SIGNATURE_BYTES = 16

const PAYLOAD = z.tuple([z.string(), z.number()])

export function createCursors(key: Buffer): Cursors {
  const hmac = createHmacSha256(key)

  function signatureOf(sort: UserSort, payload: Buffer): Buffer {
    const order = Buffer.from(`${sort.descending ? '-' : ''}${sort.by}\n`)
    return hmac(Buffer.concat([order, payload])).subarray(0, SIGNATURE_BYTES)
  }

  return {
    encode: (sort, position) => {
      const payload = Buffer.from(JSON.stringify([position.key, position.id]))
      return Buffer.concat([signatureOf(sort, payload), payload]).toString('base64url')
    },

    decode: (sort, text) => {
      const bytes = Buffer.from(text, 'base64url')
      // Decoding passes over strange characters and spare bits, so that altered text may give the same bytes.
      if (bytes.toString('base64url') !== text || bytes.length <= SIGNATURE_BYTES) return undefined
      const payload = bytes.subarray(SIGNATURE_BYTES)
      const signature = bytes.subarray(0, SIGNATURE_BYTES)
      if (!timingSafeEqual(signature, signatureOf(sort, payload))) return undefined
      const [positionKey, id] = PAYLOAD.parse(JSON.parse(payload.toString()))
      return { key: positionKey, id }
    },
  }
}

const SHA256_BLOCK_BYTES = 64

/**
 * HMAC-SHA-256 as RFC 2104 2 defines it, for a key of at most a block, by hashes at one call each. Node's own
 * makes an object for each message that the collector must finalise: 17 of the 240 µs of a GET of 100 users.
 */
export function createHmacSha256(key: Buffer): (message: Buffer) => Buffer {
  const keyMasked = (mask: number) => {
    const block = Buffer.alloc(SHA256_BLOCK_BYTES)
    key.copy(block)
    return block.map(byte => byte ^ mask)
  }
  const inner = keyMasked(0x36)
  const outer = keyMasked(0x5c)
  const sha256 = (...parts: readonly Uint8Array[]) => hash('sha256', Buffer.concat(parts), 'buffer')
  return message => sha256(outer, sha256(inner, message))
}
