import { randomBytes } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { openConnections } from '../../src/storage/postgres/open-connections.ts'
import type { Connections } from '../../src/storage/postgres/postgres-connections.ts'
import { queryPostgres } from './postgres-client.ts'
import { locationOf } from './postgres-location.ts'

/** Connections that are closed after the test. */
export function connectTo(url: string): Connections {
  const connections = openConnections({ location: locationOf(url) })
  onTestFinished(connections.close)
  return connections
}

/**
 * The URL of a database without tables yet, for a new role with the rights that serving needs: on tables and sequences that
 * are made later by the role of this URL. The new role may not change the schema.
 */
export async function asServingRole(url: string): Promise<string> {
  const role = `user_records_test_${randomBytes(6).toString('hex')}`
  await queryPostgres(
    url,
    `REVOKE CREATE ON SCHEMA public FROM public;
    CREATE ROLE ${role} LOGIN;
    ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ${role};
    ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO ${role}`,
  )
  onTestFinished(async () => {
    await queryPostgres(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })
  const restricted = new URL(url)
  restricted.username = role
  return restricted.href
}
