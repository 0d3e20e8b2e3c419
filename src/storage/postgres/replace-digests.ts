import type { DigestReplacement, UserRepository } from '../../users/user-repository.ts'
import type { Closing } from './batches.ts'
import type { Connections, Statement } from './postgres-connections.ts'
import { createWriteBatches } from './write-batches.ts'

interface Replacement extends DigestReplacement {
  readonly id: number
}

/**
 * Locks the users in the order of their ids, then replaces. A user that another transaction has locked is left as it is: that
 * transaction may be changing the password.
 */
const REPLACE: Statement = {
  name: 'replace_digests',
  text: `
    WITH wanted AS (
      SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[]) AS wanted (id, previous, next)
    ), found AS (
      SELECT id, password_digest FROM users WHERE id = ANY ($1::bigint[])
      ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE users SET password_digest = wanted.next
    FROM found JOIN wanted USING (id)
    WHERE users.id = found.id AND found.password_digest = wanted.previous
    RETURNING users.id`,
}

export interface ReplaceDigestsOptions {
  readonly connections: Connections
  readonly closing: Closing
  readonly maxWaiting: number
}

/** `UserRepository.replaceDigest`, with one statement for the calls of one turn of the event loop. */
export function createDigestReplacer(
  options: ReplaceDigestsOptions,
): UserRepository['replaceDigest'] {
  const batches = createWriteBatches<Replacement, boolean>({
    ...options,
    keysOf: ({ id }) => [String(id)],
    write: async (session, replacements) => {
      const rows = await session.query<[number]>(REPLACE, [
        replacements.map(({ id }) => id),
        replacements.map(({ previous }) => previous),
        replacements.map(({ next }) => next),
      ])
      const replaced = new Set(rows.map(([id]) => id))
      return replacements.map(({ id }) => ({ value: replaced.has(id) }))
    },
  })
  return (id, replacement) => batches.add({ id, ...replacement })
}
