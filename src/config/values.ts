import { isIP, isIPv4, isIPv6 } from 'node:net'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { parseDuration } from './duration.ts'
import { locatePostgres } from './locate-postgres.ts'
import { isLoopback } from './loopback.ts'
import type { PostgresLocation } from './postgres-location.ts'
import { isPostgresUrl } from './postgres-url.ts'
import { kindOf, type ValueKind } from './value-kind.ts'

/** Where the database is, by the kind of its engine. */
export type DatabaseLocation = SqliteLocation | PostgresLocation

export interface SqliteLocation {
  readonly kind: 'sqlite'
  /** The text of the setting. */
  readonly url: string
  /** A path of the file system, or `:memory:`. */
  readonly path: string
}

const CACHE_STORES = kindOf('one of memory, redis, none', z.enum(['memory', 'redis', 'none']))

/** From `min` to `max`. `note` follows the bounds. */
function wholeNumber(min: number, max: number, note: string): ValueKind<number> {
  return kindOf(`a whole number from ${min} to ${max}, ${note}`, integer(min, max))
}

/** For the port of `server.listen`. */
export const portNumber: ValueKind<number> = wholeNumber(0, 65535, 'where 0 picks a free port')

/** A whole number of things, at least 1. `unit` is their plural. */
export function count(unit: string, max = 1_000_000): ValueKind<number> {
  return kindOf(`a whole number of ${unit} from 1 to ${max}`, integer(1, max))
}

/** A time in milliseconds, at least 1. `examples` follow the bounds. */
export function duration(max: string, examples: string): ValueKind<number> {
  return kindOf(`a time from 1ms to ${max}, ${examples}`, upTo(max, parseDuration))
}

/** A number of bytes, at least 1. `examples` follow the bounds. */
export function size(max: string, examples: string): ValueKind<number> {
  return kindOf(`a size from 1b to ${max}, ${examples}`, upTo(max, parseSize))
}

/** One of two or more words. */
export function oneOf<const T extends string>(...words: readonly T[]): ValueKind<T> {
  const mayBe = words.length === 2 ? words.join(' or ') : `one of ${words.join(', ')}`
  return kindOf(mayBe, z.enum(words))
}

/** Where limits count. */
export const cacheStore: ValueKind<'memory' | 'redis' | 'none'> = {
  ...CACHE_STORES,
  read: (text, variables) =>
    text === 'redis' && variables.REDIS_URL === undefined
      ? { why: 'REDIS_URL, which it needs, is not set' }
      : CACHE_STORES.read(text, variables),
}

/** What the names of all keys in Redis begin with. Braces would put all of them on one node of a Cluster. */
export const keyPrefix: ValueKind<string> = kindOf(
  'up to 100 letters, digits and any of . _ - : / that keys in Redis begin with',
  z.string().regex(/^[\w.:/-]{1,100}$/),
)

/** For the host of `server.listen`. */
export const listenAddress: ValueKind<string> = kindOf(
  'an IP address or a host name to listen on',
  z.string().refine(text => isIP(text) !== 0 || isHostName(text)),
)

/** Why a management port is refused. */
export const NEEDS_TOKEN = 'MANAGEMENT_TOKEN, which it needs beyond loopback, is not set'

/** For the host of the management port. Which address a host name has is known only once the port is open. */
export const managementAddress: ValueKind<string> = {
  ...listenAddress,
  read: (text, { MANAGEMENT_PORT: port, MANAGEMENT_TOKEN: token }) =>
    port !== undefined && token === undefined && isIP(text) !== 0 && !isLoopback(text)
      ? { why: NEEDS_TOKEN }
      : listenAddress.read(text, {}),
}

/** What operators prove themselves with: text that can stand in a header as it is. */
export const accessToken: ValueKind<string> = {
  ...kindOf(
    '16 to 1000 characters of ASCII that can be seen, such as the output of: openssl rand -hex 32',
    z.string().regex(/^[!-~]{16,1000}$/),
  ),
  isSecret: true,
}

/** The extension decides how the file is read. */
export const limitsPath: ValueKind<string> = kindOf(
  'the path of a .json file or an ES module (.js, .mjs) with the rules of the limits',
  z.string().regex(/\.(?:json|m?js)$/),
)

/** The proxies to trust: how many hops, or which addresses. */
export const trustedProxies: ValueKind<number | readonly string[]> = kindOf(
  'the number of proxies in front, or a comma-separated list of addresses, ranges (10.0.0.0/8) ' +
    'and the names loopback, linklocal and uniquelocal',
  parsed(parseTrustProxy),
)

/** The origins for CORS; `*` for all. */
export const origins: ValueKind<readonly string[] | '*'> = kindOf(
  'a comma-separated list of origins such as https://app.example.com, or *',
  parsed(parseOrigins),
)

/** The hosts that requests may ask for; `*` for all. */
export const hostNames: ValueKind<readonly string[] | '*'> = kindOf(
  'a comma-separated list of host names and IP addresses without ports, or *',
  parsed(parseHostNames),
)

/** Not checked against the disk or the network: opening it does that. */
export const databaseUrl: ValueKind<DatabaseLocation> = {
  mayBe: 'file:PATH, a path, :memory:, or postgres://USER:PASSWORD@HOST:PORT/DATABASE',
  read: (url, variables) => {
    if (isPostgresUrl(url)) return locatePostgres(url, variables)
    const path = parsePath(url)
    if (path !== undefined) return { value: { kind: 'sqlite', url, path } }
    return { why: hasUrlExtras(url) ? EXTRAS_OF_FILE_URL : undefined }
  },
}

const EXTRAS_OF_FILE_URL =
  'a file: URL has no parameters here: leave out ? and # and what follows them, or give the path without file: if they are part of its name'

const SIZE_UNITS_BYTES = new Map([
  ['', 1],
  ['b', 1],
  ['kb', 1024],
  ['mb', 1024 ** 2],
])

function integer(min: number, max: number): z.ZodType<number, string> {
  const digits = z.string().regex(/^(0|[1-9]\d{0,8})$/)
  return digits.transform(Number).pipe(between(min, max))
}

function upTo(max: string, parse: (text: string) => number | undefined): z.ZodType<number, string> {
  return parsed(parse).pipe(between(1, parse(max) ?? 0))
}

function between(min: number, max: number): z.ZodType<number, number> {
  return z.number().min(min).max(max)
}

/** A schema of text that `parse` turns into a value, or into `undefined` if it is wrong. */
function parsed<T>(parse: (text: string) => T | undefined): z.ZodType<T, string> {
  return z.string().transform((text, context) => {
    const value = parse(text)
    if (value !== undefined) return value
    context.addIssue({ code: 'custom' })
    return z.NEVER
  })
}

function parseSize(text: string): number | undefined {
  const [, digits, unit = ''] = /^(\d{1,15}) *([a-z]*)$/i.exec(text) ?? []
  const unitBytes = SIZE_UNITS_BYTES.get(unit.toLowerCase())
  return digits === undefined || unitBytes === undefined ? undefined : Number(digits) * unitBytes
}

function parsePath(url: string): string | undefined {
  const path = pathOfDatabase(url)
  // better-sqlite3 would trim the path and open another file.
  const isUsable = path !== undefined && path !== '' && path.trim() === path && !path.includes('\0')
  return isUsable ? path : undefined
}

function pathOfDatabase(url: string): string | undefined {
  if (hasUrlExtras(url) || hasOtherScheme(url)) return undefined
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) return url.replace(/^file:/i, '')
  try {
    return fileURLToPath(url)
  } catch {
    // Not the URL of a local file, such as one with a host.
    return undefined
  }
}

/** Whether a file URL has more than a path. It would be ignored, or become part of the file name. */
function hasUrlExtras(url: string): boolean {
  return /^file:[^?#]*[?#]/i.test(url)
}

/** Whether a text has an unknown scheme, or is `:memory:` in other letter case. It would otherwise name a file. */
function hasOtherScheme(url: string): boolean {
  const isMemory = url.toLowerCase() === ':memory:' && url !== ':memory:'
  // A single letter is a drive of Windows.
  return isMemory || /^(?!file:)[a-z][a-z0-9+.-]+:/i.test(url)
}

function parseTrustProxy(text: string): number | string[] | undefined {
  if (/^\d+$/.test(text)) return text.length <= 3 ? Number(text) : undefined
  const entries = text.split(',').map(entry => entry.trim())
  return entries.every(isProxyAddress) ? entries : undefined
}

function isProxyAddress(entry: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(entry)) return true
  const [address = '', prefix, ...rest] = entry.split('/')
  if (isIP(address) === 0 || rest.length > 0) return false
  if (prefix === undefined) return true
  const bits = /^\d{1,3}$/.test(prefix) ? Number(prefix) : 0
  // At least 1: a range of all addresses would trust everyone.
  return bits >= 1 && bits <= (isIPv4(address) ? 32 : 128)
}

function parseOrigins(text: string): string[] | '*' | undefined {
  if (text.trim() === '*') return '*'
  const list = text.split(',').map(origin => origin.trim())
  return list.every(isOrigin) ? list : undefined
}

function parseHostNames(text: string): string[] | '*' | undefined {
  if (text.trim() === '*') return '*'
  const list = text.split(',').map(name => name.trim())
  return list.every(isHost) ? list : undefined
}

/** An address of IPv6 may stand in brackets, and a name may end with a dot, as in a URL. */
function isHost(text: string): boolean {
  const address = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text
  return isIPv6(address) || isIPv4(text) || isHostName(text.replace(/\.$/, ''))
}

function isHostName(text: string): boolean {
  return /^(?!-)[\w-]+(\.[\w-]+)*$/.test(text)
}

function isOrigin(text: string): boolean {
  return /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text
}
