import { randomBytes } from 'node:crypto'
import { createApiKey, hashApiKey, isApiKey } from '../../access/api-key.ts'
import { API_KEY_NAME_RULE, isApiKeyName } from '../../access/api-key-name.ts'
import type { ApiKeyStore, StoredApiKey } from '../../access/api-key-store.ts'
import { SCOPES, type Scope, scopesAmong } from '../../access/scopes.ts'
import { OperatorError } from '../../errors.ts'
import { MAX_DATE_MS } from '../../limits/ban-store.ts'
import { durationMs } from '../../limits/rules/rule-values.ts'
import { textInWords } from '../../limits/rules/rule-words.ts'
import { type CommandStorageOptions, openStorageForCommand } from '../../wiring/open-storage.ts'
import { EXIT, type JsonFlags, UsageError } from '../terminal/command-context.ts'
import { notify, print, printJson, readConfig, type Terminal } from '../terminal/terminal.ts'

export interface CreateFlags extends JsonFlags {
  readonly name: string
  /** Each may be several, with commas between them. */
  readonly scope: readonly string[]
  /** A time as in rules; the key never expires if it is left out. */
  readonly expires?: string
}

/** Creates a key and prints it, alone on standard output. A key that cannot be printed is revoked at once. */
export async function createKey(terminal: Terminal, flags: CreateFlags): Promise<number> {
  const { name, scope, expires, json = false } = flags
  const key = createApiKey(randomBytes)
  const stored = {
    name: requireName('--name', name),
    hash: hashApiKey(key),
    scopes: parseScopes(scope),
    ...parseExpiry(expires, Date.now()),
    lastUsedAt: undefined,
  }
  // A key may be there before the first start of a service that requires one.
  await withKeys({ terminal, ifMissing: 'create' }, async store => {
    if (!(await store.create(stored))) {
      throw new OperatorError([
        `there is a key ${textInWords(name)} already: choose another name, or revoke it first`,
      ])
    }
    try {
      await (json ? printJson(terminal, { ...jsonOf(stored), key }) : print(terminal, key))
    } catch (error) {
      await store.revoke(name)
      throw error
    }
  })
  const note = 'The database has only its hash, and the key is never shown again.'
  if (!json) notify(terminal, `created: ${rightsOf(stored)}\n${note}`)
  return EXIT.done
}

/** Prints all keys that are not revoked. */
export async function listKeys(terminal: Terminal, { json }: JsonFlags): Promise<number> {
  const keys = await withKeys({ terminal, ifMissing: 'refuse' }, store => store.list())
  if (json) await printJson(terminal, keys.map(jsonOf))
  else await print(terminal, keys.map(lineOf).join('\n') || 'no keys')
  return EXIT.done
}

/** Revokes the key of a name. */
export async function revokeKey(
  terminal: Terminal,
  { name, json }: JsonFlags & { readonly name: string },
): Promise<number> {
  requireName('NAME', name)
  const isRevoked = await withKeys({ terminal, ifMissing: 'refuse' }, store => store.revoke(name))
  if (!isRevoked) throw new OperatorError([`there is no key ${textInWords(name)}; see keys list`])
  if (json) await printJson(terminal, { revoked: name })
  else await print(terminal, `revoked: ${textInWords(name)}`)
  return EXIT.done
}

/** Returns the name. Throws `UsageError` for one that no key can have, and never repeats a key that was given in its place. */
function requireName(option: string, name: string): string {
  if (isApiKeyName(name)) return name
  const given = isApiKey(name) ? 'a key' : textInWords(name)
  throw new UsageError(`${option} was ${given}; it may be ${API_KEY_NAME_RULE}`)
}

function parseScopes(texts: readonly string[]): readonly Scope[] {
  const words = texts.flatMap(text => text.split(',')).map(word => word.trim())
  const unknown = words.find(word => !SCOPES.some(scope => scope === word))
  if (unknown === undefined) return scopesAmong(words)
  throw new UsageError(`--scope was ${textInWords(unknown)}; it may be ${SCOPES.join(', ')}`)
}

function parseExpiry(
  time: string | undefined,
  createdAt: number,
): Pick<StoredApiKey, 'createdAt' | 'expiresAt'> {
  if (time === undefined) return { createdAt, expiresAt: undefined }
  const ms = durationMs(time)
  if (ms !== undefined) return { createdAt, expiresAt: createdAt + ms }
  const may = 'it may be a time such as "90d" or "1 hour", more than 0 and at most a year'
  throw new UsageError(`--expires was ${textInWords(time)}; ${may}`)
}

async function withKeys<T>(
  { terminal, ifMissing }: Pick<CommandStorageOptions, 'ifMissing'> & { terminal: Terminal },
  work: (store: ApiKeyStore) => Promise<T>,
): Promise<T> {
  const config = readConfig(terminal)
  const storage = await openStorageForCommand(config, { ifMissing, mustPersist: true })
  try {
    return await work(storage.apiKeys)
  } finally {
    await storage.close()
  }
}

/** A key as `--json` prints it. */
function jsonOf({ name, scopes, createdAt, expiresAt, lastUsedAt }: StoredApiKey) {
  return {
    name,
    scopes,
    created_at: instantOf(createdAt),
    expires_at: expiresAt === undefined ? null : instantOf(expiresAt),
    expired: isExpired(expiresAt),
    last_used_at: lastUsedAt === undefined ? null : instantOf(lastUsedAt),
  }
}

function lineOf(key: StoredApiKey): string {
  const { createdAt, lastUsedAt } = key
  const use = lastUsedAt === undefined ? 'never used' : `last used ${instantOf(lastUsedAt)}`
  return `${rightsOf(key)}  created ${instantOf(createdAt)}  ${use}`
}

function rightsOf({ name, scopes, expiresAt }: StoredApiKey): string {
  const end = isExpired(expiresAt) ? 'expired' : 'expires'
  const expiry = expiresAt === undefined ? 'never expires' : `${end} ${instantOf(expiresAt)}`
  return `${textInWords(name)}  ${scopes.join(',')}  ${expiry}`
}

function isExpired(expiresAt: number | undefined): boolean {
  return expiresAt !== undefined && expiresAt <= Date.now()
}

/** Limited to what a date can hold: another program may have written any number into the database. */
function instantOf(ms: number): string {
  return new Date(Math.max(-MAX_DATE_MS, Math.min(ms, MAX_DATE_MS))).toISOString()
}
