import type { UserRepository } from '../../users/user-repository.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { createUserChanges } from './change-users.ts'
import { createContendedWrites } from './contended-writes.ts'
import { createUserCreator } from './create-users.ts'
import { createUserLister, createUserWalker } from './list-users.ts'
import type { Connections } from './postgres-connections.ts'
import { createShortReads } from './user-reads.ts'

const PING = { name: 'ping', text: 'SELECT FROM users WHERE id = 1' }

export interface PostgresUserRepositoryOptions
  extends Pick<OpenStorageOptions, 'now' | 'steadyNow'> {
  readonly connections: Connections
}

/** Users in the table `users` of PostgreSQL. Reads and creates of one turn of the event loop share statements. */
export function createPostgresUserRepository(
  options: PostgresUserRepositoryOptions,
): UserRepository {
  const { connections, steadyNow } = options
  const reads = createShortReads(connections, steadyNow)
  const contended = createContendedWrites()

  return {
    create: createUserCreator({ ...options, reads, contended }),

    ...createUserChanges({ ...options, reads, contended }),

    ...reads,

    list: createUserLister(connections),

    walk: createUserWalker(connections),

    ping: () => connections.ping(PING),
  }
}
