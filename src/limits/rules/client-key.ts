import { createHash, hash } from 'node:crypto'
import { isIP } from 'node:net'
import type { Request } from 'express'
import { getDomain } from 'tldts'
import { plainHost } from '../../http/forwarded.ts'
import { headerValues } from '../../http/headers.ts'
import { queryValues } from '../../http/query.ts'
import { memoize } from '../../platform/memoize.ts'
import { countedAddress, factsOf } from './request-facts.ts'

export type KeyName =
  | 'ip'
  | 'domain'
  | 'host'
  | 'key'
  | 'path'
  | `header:${string}`
  | `query:${string}`
  | `body:${string}`

/**
 * "ip", "domain", "host", "key" (the name of the API key), "path", "header:NAME", "query:NAME", on rateLimits "body:PATH" such as
 * "body:user.email", or a function. A request without the key is not counted.
 */
export type KeyPart = KeyName | ((request: Request) => string | number | null | undefined)

/** A list makes one compound key. */
export type Key = KeyPart | readonly KeyPart[]

/** What a rule counts by, compiled. */
export interface ClientKey {
  /** Its parts, such as `ip` and `header:X-Api-Key`. A function is `[function]`. */
  readonly names: readonly string[]
  /** Whether it is known only once the body is read. */
  readonly needsBody: boolean
  /** The key of a request; `undefined` for one that is not counted. Throws if a function of the rule does. */
  find(request: Request): string | undefined
  /**
   * The key of the client that an operator names. `name` is an address for `ip`, a host name for `host` and `domain`, otherwise
   * the value itself; a JSON list of these for a compound key. `undefined` for a name that no client can have.
   */
  named(name: string): string | undefined
}

interface CompiledPart extends Pick<ClientKey, 'find'> {
  /** The value of the client that an operator names; the name itself if left out. */
  readonly named?: (name: string) => string | undefined
}

interface KeyKind {
  /** What follows the colon, as in `header:NAME`. */
  readonly argument?: 'NAME' | 'NAME.NAME'
  readonly compile: (argument: string) => CompiledPart
}

/** In the order in which messages list them. A new kind needs an entry here and in `KeyName`. */
const KEY_KINDS: Readonly<Record<string, KeyKind>> = {
  ip: { compile: () => ({ find: request => factsOf(request).ipKey, named: addressKey }) },
  domain: { compile: compileDomain },
  host: { compile: () => ({ find: request => factsOf(request).host, named: plainHost }) },
  key: { compile: () => ({ find: request => request.apiKey?.name }) },
  path: { compile: () => ({ find: request => factsOf(request).path }) },
  header: { argument: 'NAME', compile: compileHeader },
  query: {
    argument: 'NAME',
    compile: name => ({
      find: request => countedAddress(queryValues(request.url, name)[0] || undefined),
      named: namedValue,
    }),
  },
  body: { argument: 'NAME.NAME', compile: compileBody },
}

/** The names that a key may have, as messages list them. */
export const KEY_NAMES: readonly string[] = Object.entries(KEY_KINDS).map(([kind, { argument }]) =>
  argument === undefined ? kind : `${kind}:${argument}`,
)

export const isOfBody = (name: string) => name.startsWith('body:')

/** Compiles a key of a file; `undefined` for anything else. */
export function compileKey(given: unknown): ClientKey | undefined {
  const givenParts = [given].flat()
  const parts = givenParts.map(compilePart).filter(part => part !== undefined)
  if (parts.length === 0 || parts.length < givenParts.length) return undefined
  const names = givenParts.map(part => (typeof part === 'function' ? '[function]' : String(part)))
  return {
    names,
    needsBody: names.some(isOfBody),
    find: request => {
      const values: string[] = []
      for (const { find } of parts) {
        const value = find(request)
        if (value === undefined) return undefined
        values.push(value)
      }
      return joinParts(values)
    },
    named: name => {
      const given = parts.length === 1 ? [name] : parseTexts(name)
      if (given.length !== parts.length || given.includes('')) return undefined
      const values = parts.flatMap(
        ({ named = text => text }, index) => named(given[index] ?? '') || [],
      )
      return values.length === parts.length ? joinParts(values) : undefined
    },
  }
}

function compilePart(part: unknown): CompiledPart | undefined {
  if (typeof part === 'function') return { find: request => textOf(requireSync(part(request))) }
  const text = typeof part === 'string' ? part : ''
  const [, name = '', argument] = /^(\w+)(?::(.+))?$/s.exec(text) ?? []
  const kind = Object.hasOwn(KEY_KINDS, name) ? KEY_KINDS[name] : undefined
  const isWrong =
    (argument === undefined) !== (kind?.argument === undefined) ||
    (kind?.argument === 'NAME.NAME' && argument?.split('.').includes(''))
  return isWrong ? undefined : kind?.compile(argument ?? '')
}

/** Returns the result of a function of a rule. Throws if it is a promise: rules are evaluated synchronously. */
export function requireSync<T>(value: T): T {
  if (typeof value !== 'object' || value === null || !('then' in value)) return value
  // Nobody else handles its rejection, which would end the process.
  Promise.resolve(value).catch(() => {})
  throw new TypeError('a function of a rule must answer at once')
}

function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  throw new TypeError('a key function must give a string or a number')
}

/** The key of a client that has these values for the parts of a key. */
function joinParts(values: readonly string[]): string {
  return shorten(values.length === 1 ? (values[0] as string) : JSON.stringify(values))
}

const MAX_KEY_CHARS = 128

/**
 * Hashes a long key: clients choose some keys, and many long ones would fill the memory. A key function may cut a character in
 * half, which no database keeps.
 */
function shorten(key: string): string {
  if (key.length <= MAX_KEY_CHARS) return key.toWellFormed()
  return createHash('sha256').update(key).digest('base64url')
}

/** The registrable domain by the public suffix list; an address or a single label is itself. */
function domainOf(host: string): string {
  return getDomain(host, { allowPrivateDomains: true }) ?? host
}

function compileDomain(): CompiledPart {
  const findDomain = memoize(domainOf)
  return {
    find: request => {
      const { host } = factsOf(request)
      return host === undefined ? undefined : findDomain(host)
    },
    named: name => domainOf(plainHost(name)),
  }
}

/** Headers whose values let a client in: RFC 9110 11.6.2 and 11.7.2, RFC 6265 4.2. They are counted by their digest. */
const CREDENTIALS = ['authorization', 'proxy-authorization', 'cookie']

function compileHeader(name: string): CompiledPart {
  const lowerCaseName = name.toLowerCase()
  const isCredential = CREDENTIALS.includes(lowerCaseName)
  return {
    find: request => {
      const value = headerValues(request, lowerCaseName).join(', ')
      if (value === '') return undefined
      return isCredential ? digestOf(value) : countedAddress(value)
    },
    named: isCredential ? namedDigest : namedValue,
  }
}

/** A text or a number in the body, at a path such as `user.email`: trimmed and in lower case. */
function compileBody(path: string): CompiledPart {
  const names = path.split('.')
  return {
    find: ({ body }) => {
      let value: unknown = body
      for (const name of names) {
        if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name))
          return undefined
        value = (value as Record<string, unknown>)[name]
      }
      if (typeof value === 'number') return String(value)
      return typeof value === 'string' ? value.trim().toLowerCase() || undefined : undefined
    },
  }
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
