import { createHash, hash } from 'node:crypto'
import { isIP } from 'node:net'
import type { Request } from 'express'
import { getDomain } from 'tldts'
import { plainHost } from '../../http/forwarded.ts'
import { headerValues } from '../../http/headers.ts'
import { memoize } from '../../platform/memoize.ts'
import type { Key, KeyName, KeyPart } from './limits-file.ts'
import { countedAddress, factsOf, queryValues } from './request-facts.ts'
import { requireSync } from './require-sync.ts'

const MAX_KEY_CHARS = 128

/**
 * The key that a request is counted by; `undefined` for a request that is not counted. Throws if a function of the rule does.
 */
export type KeyOf = (request: Request) => string | undefined

/** Everything about one kind of key, except its type in `KeyName`. */
interface KeyKind {
  /** What follows the colon, as in `header:NAME`. */
  readonly argument?: 'NAME' | 'NAME.NAME'
  /** Whether the key is known only once the body is read. */
  readonly needsBody?: true
  readonly compile: (argument: string) => KeyOf
  /** The key of the client that an operator names; the name itself if left out. */
  readonly keyOfName?: (name: string, argument: string) => string | undefined
}

/** In the order in which messages list them. A new kind needs an entry here and in `KeyName`. */
const KEY_KINDS: Readonly<Record<KindOf<KeyName>, KeyKind>> = {
  ip: { compile: () => request => factsOf(request).ipKey, keyOfName: addressKey },
  domain: { compile: domainKey, keyOfName: name => domainOf(plainHost(name)) },
  host: { compile: () => request => factsOf(request).host, keyOfName: plainHost },
  key: { compile: () => request => request.apiKey?.name },
  path: { compile: () => request => factsOf(request).path },
  header: {
    argument: 'NAME',
    compile: headerKey,
    keyOfName: (name, header) => (hasCredentials(header) ? namedDigest(name) : namedValue(name)),
  },
  query: {
    argument: 'NAME',
    compile: name => request => countedAddress(queryValues(request, name)[0] || undefined),
    keyOfName: namedValue,
  },
  body: { argument: 'NAME.NAME', needsBody: true, compile: path => bodyKey(path.split('.')) },
}

type KindOf<Name extends string> = Name extends `${infer Kind}:${string}` ? Kind : Name

/** The names that a key may have, as messages list them. */
export function listKeyNames({ withBody }: { readonly withBody: boolean }): string {
  return Object.entries(KEY_KINDS)
    .filter(([, { needsBody }]) => withBody || !needsBody)
    .map(([kind, { argument }]) => (argument === undefined ? kind : `${kind}:${argument}`))
    .join(', ')
}

/** Whether a text is one of those names. */
export function isKeyName(text: string, { withBody }: { readonly withBody: boolean }): boolean {
  const [kind, argument] = splitAtColon(text)
  if (!Object.hasOwn(KEY_KINDS, kind)) return false
  const { argument: need, needsBody } = KEY_KINDS[kind as keyof typeof KEY_KINDS]
  if (needsBody && !withBody) return false
  if (argument === undefined || need === undefined) return argument === need
  return need === 'NAME' ? argument !== '' : argument.split('.').every(name => name !== '')
}

/** Whether a key is known only once the body is read. */
export function needsBody(key: Key | undefined): boolean {
  return partsOf(key).some(part => typeof part === 'string' && parseName(part).kind.needsBody)
}

/** Finds the key of a request. */
export function compileKey(key: Key | undefined): KeyOf {
  const parts = partsOf(key).map(compilePart)
  return request => {
    const values: string[] = []
    for (const part of parts) {
      const value = part(request)
      if (value === undefined) return undefined
      values.push(value)
    }
    return joinParts(values)
  }
}

/**
 * The key of the client that an operator names. `name` is an address for `ip`, a host name for `host` and `domain`, otherwise
 * the value itself; a JSON list of these for a compound key. `undefined` for a name that no client can have.
 */
export function namedKey(key: Key | undefined, name: string): string | undefined {
  const parts = partsOf(key)
  const names = parts.length === 1 ? [name] : parseTexts(name)
  const values = names.flatMap((each, index) => namedPart(parts[index], each) ?? [])
  const isComplete = names.length === parts.length && values.length === parts.length
  return isComplete ? joinParts(values) : undefined
}

/** The key of a client that has these values for the parts of a key. */
function joinParts(values: readonly string[]): string {
  return shorten(values.length === 1 ? (values[0] as string) : JSON.stringify(values))
}

/** All keys that the client an operator names may have, for any rule. */
export function possibleKeys(name: string): readonly string[] {
  const unquoted = name.startsWith('"') ? parseTexts(`[${name}]`)[0] : undefined
  const keys = [name, unquoted, shorten(name), addressKey(name), namedDigest(name), plainHost(name)]
  const lists = possibleLists(parseTexts(name)).map(list => shorten(JSON.stringify(list)))
  return [...new Set([...keys, ...lists].filter(key => key !== undefined))]
}

/** What a client may have for a compound key, of which at most one part is a credential. */
function possibleLists(names: readonly string[]): readonly (readonly string[])[] {
  if (names.length === 0) return []
  const counted = names.map(name => addressKey(name) ?? name)
  const withCredential = names.map((name, index) => counted.with(index, namedDigest(name)))
  return [names, counted, ...withCredential]
}

function namedPart(part: KeyPart | undefined, name: string): string | undefined {
  if (name === '' || part === undefined) return undefined
  if (typeof part === 'function') return name
  const { kind, argument } = parseName(part)
  return (kind.keyOfName === undefined ? name : kind.keyOfName(name, argument)) || undefined
}

/** The key of an address, or of a network in the form that is counted, such as `2001:db8:0:100::/56`. */
function addressKey(name: string): string | undefined {
  const [address = ''] = name.split('/')
  const key = isIP(address) === 0 ? undefined : countedAddress(address)
  return name === address || name === key ? key : undefined
}

/** The key of the value of a header or parameter, which may be an address. */
function namedValue(name: string): string {
  return addressKey(name) ?? name
}

/** The items of a JSON list of texts; empty for anything else. */
function parseTexts(text: string): readonly string[] {
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) && list.every(item => typeof item === 'string') ? list : []
  } catch {
    return []
  }
}

/**
 * Hashes a long key: clients choose some keys, and many long ones would fill the memory. Half of a surrogate pair is
 * replaced, as the database does, so that a ban is found there under the same key.
 */
function shorten(key: string): string {
  if (key.length <= MAX_KEY_CHARS) return key.toWellFormed()
  return createHash('sha256').update(key).digest('base64url')
}

/** A key that is not compound has one part. */
export function partsOf(key: Key = 'ip'): readonly KeyPart[] {
  return [key].flat()
}

function compilePart(part: KeyPart): KeyOf {
  if (typeof part === 'function') return request => textOf(requireSync<unknown>(part(request)))
  const { kind, argument } = parseName(part)
  return kind.compile(argument)
}

function parseName(part: KeyName): { readonly kind: KeyKind; readonly argument: string } {
  const [kind, argument = ''] = splitAtColon(part)
  return { kind: KEY_KINDS[kind as keyof typeof KEY_KINDS], argument }
}

function splitAtColon(text: string): [string, string | undefined] {
  const colon = text.indexOf(':')
  return colon < 0 ? [text, undefined] : [text.slice(0, colon), text.slice(colon + 1)]
}

function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  throw new TypeError('a key function must give a string or a number')
}

/** The registrable domain by the public suffix list; an address or a single label is itself. */
function domainOf(host: string): string {
  return getDomain(host, { allowPrivateDomains: true }) ?? host
}

function domainKey(): KeyOf {
  const findDomain = memoize(domainOf)
  return request => {
    const { host } = factsOf(request)
    return host === undefined ? undefined : findDomain(host)
  }
}

function headerKey(name: string): KeyOf {
  const lowerCaseName = name.toLowerCase()
  const toKey = hasCredentials(name) ? digestOf : countedAddress
  return request => {
    const value = headerValues(request, lowerCaseName).join(', ')
    return value === '' ? undefined : toKey(value)
  }
}

/** Headers whose values let a client in: RFC 9110 11.6.2 and 11.7.2, RFC 6265 4.2. They are counted by their digest. */
function hasCredentials(header: string): boolean {
  return ['authorization', 'proxy-authorization', 'cookie'].includes(header.toLowerCase())
}

const DIGEST = /^sha256:[0-9a-f]{64}$/

/**
 * What a client with these credentials is counted by: `sha256:` and the SHA-256 of the bytes in hex. Keys of counters and bans
 * are logged and stored, so a credential must not be one. By default `value` is as Node has it, a character for each byte.
 */
function digestOf(value: string, encoding: BufferEncoding = 'latin1'): string {
  return `sha256:${hash('sha256', Buffer.from(value, encoding), 'hex')}`
}

/** The digest that an operator names: itself, or the credentials, which a terminal has in UTF-8. */
function namedDigest(name: string): string {
  return DIGEST.test(name) ? name : digestOf(name, 'utf8')
}

/** A text or a number in the body, at a path such as `user.email`: trimmed and in lower case. */
function bodyKey(path: readonly string[]): KeyOf {
  return request => {
    let value: unknown = request.body
    for (const name of path) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name))
        return undefined
      value = (value as Record<string, unknown>)[name]
    }
    if (typeof value === 'number') return String(value)
    return typeof value === 'string' ? value.trim().toLowerCase() || undefined : undefined
  }
}
