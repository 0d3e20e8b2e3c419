import { storedUser } from '../../users/stored-user.ts'
import type { UserRepository } from '../../users/user-repository.ts'
import { createUserChanges } from './change-users.ts'
import { createContendedWrites } from './contended-writes.ts'
import { createUserCreator } from './create-users.ts'
import { createUserLister } from './list-users.ts'
import type { Connections } from './postgres-connections.ts'
import { createUserReads } from './user-reads.ts'
import { createUserWalker } from './walk-users.ts'

const PING = { name: 'ping', text: 'SELECT FROM users WHERE id = 1' }

export interface PostgresUserRepositoryOptions {
  readonly connections: Connections
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds since the epoch that do not jump when the machine's clock is set. */
  readonly steadyNow: () => number
}

/** Users in the table `users` of PostgreSQL. Reads and creates of one turn of the event loop share statements. */
export function createPostgresUserRepository(
  options: PostgresUserRepositoryOptions,
): UserRepository {
  const { connections } = options
  const reads = createUserReads(options)
  const contended = createContendedWrites()

  return {
    create: createUserCreator({ ...options, reads, contended }),

    ...createUserChanges({ ...options, reads, contended }),

    findIdempotentCreate: async keyHash => {
      const row = await reads.findKey(keyHash)
      if (row === undefined) return undefined
      const [, fingerprint, json] = row
      if (fingerprint === null || json === null) return 'user_deleted'
      return { fingerprint, user: storedUser(json) }
    },

    find: async id => {
      const json = await reads.find(id)
      return json === undefined ? undefined : storedUser(json)
    },

    findByEmail: email => reads.findByEmail(email.toLowerCase()),

    findDigests: async ids => {
      const found = await Promise.all(
        ids.map(async id => [id, await reads.findDigest(id)] as const),
      )
      return new Map(
        found.filter((entry): entry is [number, string | null] => entry[1] !== undefined),
      )
    },

    isEmailTaken: async (email, exceptId) => {
      const owner = await reads.findOwner(email.toLowerCase())
      return owner !== undefined && owner !== exceptId
    },

    list: createUserLister(connections),

    walk: createUserWalker(connections),

    revision: reads.revision,

    ping: () => connections.ping(PING),
  }
}
