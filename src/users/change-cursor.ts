import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { ChangePosition } from './user-changes.ts'

/** A check against mistakes: no secret is needed, because a position tells nothing and allows nothing. */
const CHECK_BYTES = 6

/** A number of a transaction that both engines can compare. */
const number = z.string().regex(/^\d{1,18}$/)

const id = z.int().nonnegative()

/** Whoever reads the source can make the check of any text, so that not even the types of its values are certain. */
const payloads = z.union([
  z.tuple([z.string(), z.literal(0), z.string().regex(/^[\d:.TZ-]{0,30}$/), id, number]),
  z.tuple([z.string(), z.literal(1), number, id, number]),
])

/** A position as text that clients keep and send back. */
export function encodeChangeCursor({ mark, phase, key, id, since }: ChangePosition): string {
  const payload = Buffer.from(JSON.stringify([mark, phase === 'changes' ? 1 : 0, key, id, since]))
  return Buffer.concat([checkOf(payload), payload]).toString('base64url')
}

/** `undefined` for text that `encodeChangeCursor` does not make, in whichever database. */
export function decodeChangeCursor(text: string): ChangePosition | undefined {
  const bytes = Buffer.from(text, 'base64url')
  // Decoding ignores other characters and spare bits, so that altered text may give the same bytes.
  if (bytes.toString('base64url') !== text || bytes.length <= CHECK_BYTES) return undefined
  const payload = bytes.subarray(CHECK_BYTES)
  if (!bytes.subarray(0, CHECK_BYTES).equals(checkOf(payload))) return undefined
  try {
    const [mark, phase, key, id, since] = payloads.parse(JSON.parse(payload.toString()))
    return { mark, phase: phase === 1 ? 'changes' : 'before', key, id, since }
  } catch {
    return undefined
  }
}

function checkOf(payload: Buffer): Buffer {
  return createHash('sha256').update('changes\n').update(payload).digest().subarray(0, CHECK_BYTES)
}
