import { randomBytes } from 'node:crypto'
import { createApiKey, hashApiKey } from '../../src/access/api-key.ts'
import type { ApiKeyStore } from '../../src/access/api-key-store.ts'
import { SCOPES, type Scope } from '../../src/access/scopes.ts'
import { loadConfig } from '../../src/config/settings.ts'
import { openStorageForCommand } from '../../src/open-database.ts'
import { databaseIn } from './new-database.ts'
import {
  type AtEnd,
  openTestApp,
  type TestApp,
  type TestAppOptions,
  temporaryFolder,
} from './open-test-app.ts'

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

export interface KeyedApp extends TestApp {
  /** The value of `Authorization` for each key, in the order of the options. */
  readonly bearers: readonly string[]
}

/** A service that requires API keys, with the given ones in its database. */
export async function openKeyedApp(
  keys: readonly TestKey[],
  { env, ...options }: TestAppOptions = {},
  atEnd?: AtEnd,
): Promise<KeyedApp> {
  const databaseUrl = await databaseIn(temporaryFolder(atEnd), undefined, atEnd)
  const bearers: string[] = []
  for (const key of keys) bearers.push(`Bearer ${await addKey(databaseUrl, key)}`)
  const required = { DATABASE_URL: databaseUrl, API_KEYS: 'required', ...env }
  return { ...(await openTestApp({ ...options, env: required }, atEnd)), bearers }
}
