import { randomBytes } from 'node:crypto'
import type { StoredApiKey } from '../access/api-key.ts'
import {
  API_KEY_NAME_RULE,
  createApiKey,
  hashApiKey,
  isApiKey,
  isApiKeyName,
  SCOPES,
  type Scope,
  scopesAmong,
} from '../access/api-key.ts'
import { durationMs } from '../config/values.ts'
import { OperatorError } from '../errors.ts'
import { MAX_DATE_MS } from '../limits/ban-store.ts'
import { withStorage } from './terminal/read-config.ts'
import {
  EXIT,
  type JsonFlags,
  notify,
  type Outcome,
  print,
  printJson,
  type Terminal,
  textInWords,
  UsageError,
  wrongValue,
} from './terminal/terminal.ts'

export interface CreateFlags extends JsonFlags {
  readonly name: string
  /** Each may be several, with commas between them. */
  readonly scope: readonly string[]
  readonly expires?: string
}

/** Creates a key and prints it, alone on standard output. A key that cannot be printed is revoked at once. */
export async function createKey(terminal: Terminal, flags: CreateFlags): Promise<number> {
  const { name, json } = flags
  requireName('--name', name)
  const key = createApiKey(randomBytes)
  const scopes = parseScopes(flags.scope)
  const createdAt = Date.now()
  const expiresAt = flags.expires === undefined ? undefined : createdAt + lifeMs(flags.expires)
  const stored = {
    name,
    hash: hashApiKey(key),
    scopes,
    createdAt,
    expiresAt,
    lastUsedAt: undefined,
  }
  // A key may be there before the first start of a service that requires one.
  await withStorage(terminal, 'create', async ({ apiKeys: store }) => {
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

/** All keys that are not revoked, by name. */
export async function listKeys(terminal: Terminal): Promise<Outcome> {
  const keys = await withStorage(terminal, 'refuse', ({ apiKeys }) => apiKeys.list())
  return { lines: keys.length === 0 ? ['no keys'] : keys.map(lineOf), json: keys.map(jsonOf) }
}

/** Revokes the key of a name. */
export async function revokeKey(terminal: Terminal, name: string): Promise<Outcome> {
  requireName('NAME', name)
  const isRevoked = await withStorage(terminal, 'refuse', ({ apiKeys }) => apiKeys.revoke(name))
  if (!isRevoked) throw new OperatorError([`there is no key ${textInWords(name)}; see keys list`])
  return { lines: [`revoked: ${textInWords(name)}`], json: { revoked: name } }
}

/** Throws `UsageError` for a name that no key can have, and never repeats a key that was given in its place. */
function requireName(option: string, name: string): void {
  if (isApiKeyName(name)) return
  const given = isApiKey(name) ? 'a key' : textInWords(name)
  throw new UsageError(`${option} was ${given}; it may be ${API_KEY_NAME_RULE}`)
}

function parseScopes(texts: readonly string[]): readonly Scope[] {
  const words = texts.flatMap(text => text.split(',')).map(word => word.trim())
  const unknown = words.find(word => !SCOPES.some(scope => scope === word))
  if (unknown === undefined) return scopesAmong(words)
  throw wrongValue('--scope', unknown, SCOPES.join(', '))
}

function lifeMs(time: string): number {
  const ms = durationMs(time)
  if (ms !== undefined) return ms
  throw wrongValue(
    '--expires',
    time,
    'a time such as "90d" or "1 hour", more than 0 and at most a year',
  )
}

/** A key as `--json` prints it. */
function jsonOf({ name, scopes, createdAt, expiresAt, lastUsedAt }: StoredApiKey) {
  return {
    ...{ name, scopes, created_at: instantOf(createdAt) },
    ...{ expires_at: instantOf(expiresAt) ?? null, expired: isExpired(expiresAt) },
    last_used_at: instantOf(lastUsedAt) ?? null,
  }
}

function lineOf(key: StoredApiKey): string {
  const lastUse = instantOf(key.lastUsedAt)
  const use = lastUse === undefined ? 'never used' : `last used ${lastUse}`
  return `${rightsOf(key)}  created ${instantOf(key.createdAt)}  ${use}`
}

function rightsOf({ name, scopes, expiresAt }: StoredApiKey): string {
  const end = isExpired(expiresAt) ? 'expired' : 'expires'
  const expiry = expiresAt === undefined ? 'never expires' : `${end} ${instantOf(expiresAt)}`
  return `${textInWords(name)}  ${scopes.join(',')}  ${expiry}`
}

function isExpired(expiresAt = Number.POSITIVE_INFINITY): boolean {
  return expiresAt <= Date.now()
}

/** Limited to what a date can hold: another program may have written any number into the database. */
function instantOf(ms: number | undefined): string | undefined {
  if (ms === undefined) return undefined
  return new Date(Math.max(-MAX_DATE_MS, Math.min(ms, MAX_DATE_MS))).toISOString()
}
