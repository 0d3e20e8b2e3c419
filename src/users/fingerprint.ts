import { createHash, timingSafeEqual } from 'node:crypto'
import { canonicalJson } from './canonical-json.ts'
import type { PasswordHasher } from './passwords/hasher.ts'

/** Compares request bodies as JSON values, without storing them. */
export interface Fingerprints {
  of(body: unknown): Promise<string>
  matches(fingerprint: string, body: unknown): Promise<boolean>
}

/**
 * The fingerprint of a body with only a name and an e-mail is its SHA-256: both are stored as plain text anyway. Any other
 * body may contain a password, under any key, so its fingerprint is made like a password digest and is as slow to guess.
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
