import { createHash } from 'node:crypto'

/** The SHA-256 of a key, under which it is stored: with 256 random bits nothing slower is needed. */
export function hashApiKey(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}
