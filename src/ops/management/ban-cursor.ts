import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { BanQuery } from '../../limits/ban-store.ts'

/** A place in the list of bans. */
export type BanPlace = NonNullable<BanQuery['after']>

const CHECKSUM_BYTES = 8

const PAYLOAD = z.tuple([z.string(), z.string()])

/**
 * A place as opaque text. Its checksum is no signature: it shows an altered cursor, and nothing is protected by it, because
 * whoever may send one may list all bans.
 */
export function encodeBanCursor({ rule, clientKey }: BanPlace): string {
  const payload = Buffer.from(JSON.stringify([rule, clientKey]))
  return Buffer.concat([checksumOf(payload), payload]).toString('base64url')
}

/** `undefined` for text that `encodeBanCursor` did not make. */
export function decodeBanCursor(text: string): BanPlace | undefined {
  const bytes = Buffer.from(text, 'base64url')
  // Decoding ignores other characters and spare bits, so that altered text may give the same bytes.
  if (bytes.toString('base64url') !== text || bytes.length <= CHECKSUM_BYTES) return undefined
  const payload = bytes.subarray(CHECKSUM_BYTES)
  if (!checksumOf(payload).equals(bytes.subarray(0, CHECKSUM_BYTES))) return undefined
  return readPayload(payload)
}

/** Anyone can make a checksum, so the payload may be anything. */
function readPayload(payload: Buffer): BanPlace | undefined {
  try {
    const [rule, clientKey] = PAYLOAD.parse(JSON.parse(payload.toString()))
    return { rule, clientKey }
  } catch {
    return undefined
  }
}

function checksumOf(payload: Buffer): Buffer {
  return createHash('sha256').update('bans\n').update(payload).digest().subarray(0, CHECKSUM_BYTES)
}
