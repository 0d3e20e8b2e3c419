import { storedUser } from '../users/stored-user.ts'
import type { IdempotentCreate } from '../users/user-repository.ts'

/** Each new Idempotency-Key deletes up to this many expired ones, which is faster than they can be added. */
export const EXPIRED_KEYS_A_CLAIM = 2

/** What a row of `idempotency_keys` tells. Its values are null once the user is deleted. */
export function idempotentCreateOf(
  fingerprint: string | null,
  json: string | null,
): IdempotentCreate {
  if (fingerprint === null || json === null) return 'user_deleted'
  return { fingerprint, user: storedUser(json) }
}
