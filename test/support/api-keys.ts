import { randomBytes } from 'node:crypto'
import type { ApiKeyStore } from '../../src/access/api-key.ts'
import { createApiKey, hashApiKey, SCOPES, type Scope } from '../../src/access/api-key.ts'
import { loadConfig } from '../../src/config/settings.ts'
import { openStorageForCommand } from '../../src/wiring/open-storage.ts'

export interface TestKey {
  readonly name?: string
  readonly scopes?: readonly Scope[]
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number
}

/** A key that is well-formed and in no database. */
export function unknownKey(): string {
  return createApiKey(randomBytes)
}

/** Works on the keys of a database as a command does, in a connection of its own. */
export async function withKeyStore<T>(
  databaseUrl: string,
  work: (store: ApiKeyStore) => Promise<T>,
): Promise<T> {
  const config = loadConfig({ DATABASE_URL: databaseUrl }, '/no/.env')
  const storage = await openStorageForCommand(config, { ifMissing: 'create' })
  try {
    return await work(storage.apiKeys)
  } finally {
    await storage.close()
  }
}

/** Stores a key with all scopes, unless the options say otherwise, and returns it. */
export function addKey(databaseUrl: string, options: TestKey = {}): Promise<string> {
  const { name = 'tester', scopes = SCOPES, expiresAt } = options
  const key = unknownKey()
  return withKeyStore(databaseUrl, async store => {
    await store.create({ name, hash: hashApiKey(key), scopes, createdAt: 0, expiresAt })
    return key
  })
}
