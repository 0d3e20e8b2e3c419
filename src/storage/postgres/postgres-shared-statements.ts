import type { SharedStatements } from '../shared-statements.ts'
import type { Connections } from './postgres-connections.ts'

/** The statements of `SharedStatements` on PostgreSQL. */
export function createPostgresSharedStatements(connections: Connections): SharedStatements {
  return {
    read: (text, values) => connections.query({ text }, values, { lane: 'aside' }),
    write: (text, values) =>
      connections.write(session => session.query({ text }, values), { countWrites: () => 1 }),
  }
}
