import { createHash, timingSafeEqual } from 'node:crypto'
import { canonicalJson } from './canonical-json.ts'
import type { PasswordHasher } from './passwords.ts'

/** Tells whether two request bodies are the same JSON value, without keeping them. */
export interface Fingerprints {
  of(body: unknown): Promise<string>
  matches(fingerprint: string, body: unknown): Promise<boolean>
}

/**
 * A body with nothing but a name and an address is told by SHA-256, because both are stored as they are anyway.
 * Any other may hold a password, under whichever key, so that it is told by a digest that is as hard to guess
 * from as that of the password itself.
 */
export function createFingerprints(passwords: PasswordHasher): Fingerprints {
  return {
    of: async body => {
      const hash = sha256(canonicalJson(body))
      return holdsNoSecret(body) ? hash : passwords.hash(hash)
    },

    matches: async (fingerprint, body) => {
      const hash = sha256(canonicalJson(body))
      if (fingerprint.startsWith('$')) return passwords.verify(fingerprint, hash)
      return timingSafeEqual(Buffer.from(fingerprint), Buffer.from(hash))
    },
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function holdsNoSecret(body: unknown): boolean {
  const { user, ...rest } = body as { user: Record<string, unknown> }
  const { name: _name, email: _email, password = null, ...attributes } = user
  return password === null && Object.keys({ ...rest, ...attributes }).length === 0
}
