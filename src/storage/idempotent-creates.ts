import { storedUser } from '../users/stored-user.ts'
import type { IdempotentCreate } from '../users/user-repository.ts'

/** Each new Idempotency-Key deletes up to this many expired ones, which is faster than they can be added. */
export const EXPIRED_KEYS_A_CLAIM = 2

/**
 * SQL for the columns of a row of `idempotency_keys` that `idempotentCreateOf` takes. Not all that deletes a user runs the triggers
 * which delete its answer: TRUNCATE and, on SQLite, REPLACE do not.
 */
export const CREATE_COLUMNS = `
  CASE WHEN EXISTS (SELECT 1 FROM users WHERE users.id = user_id) THEN fingerprint END, user_json`

/** What a row of `idempotency_keys` tells. Its values are null once the user is deleted. */
export function idempotentCreateOf(
  fingerprint: string | null,
  json: string | null,
): IdempotentCreate {
  if (fingerprint === null || json === null) return 'user_deleted'
  return { fingerprint, user: storedUser(json) }
}
