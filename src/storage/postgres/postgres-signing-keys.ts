import { randomBytes } from 'node:crypto'
import { SIGNING_KEYS, type SigningKeyName } from '../storage.ts'
import type { Connections } from './postgres-connections.ts'

const SELECT_KEYS = `SELECT name, key FROM signing_keys WHERE name = ANY($1::text[])`

const INSERT_UNLESS_THERE = `
  INSERT INTO signing_keys (name, key) SELECT * FROM unnest($1::text[], $2::bytea[])
  ON CONFLICT DO NOTHING`

/** Creates the keys that a database does not have yet, each of 32 random bytes, and reads all of them. */
export async function openSigningKeys(
  connections: Connections,
): Promise<ReadonlyMap<SigningKeyName, Buffer>> {
  const there = await readKeys(connections)
  const missing = SIGNING_KEYS.filter(name => !there.has(name))
  if (missing.length === 0) return there
  const keys = missing.map(() => randomBytes(32))
  await connections.write(session => session.query({ text: INSERT_UNLESS_THERE }, [missing, keys]))
  // Another process may have been faster.
  return readKeys(connections)
}

async function readKeys(connections: Connections): Promise<ReadonlyMap<SigningKeyName, Buffer>> {
  return new Map(await connections.query({ text: SELECT_KEYS }, [SIGNING_KEYS]))
}
