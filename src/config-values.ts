import { isIP, isIPv4 } from 'node:net'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { parseDuration } from './duration.ts'

/** A kind of value that settings can have: how its text is parsed, and what it may be in words. */
export interface ValueKind<T> {
  readonly schema: z.ZodType<T, string>
  /** Completes the sentence "it may be …". */
  readonly mayBe: string
  /** Why a text is wrong, where `mayBe` is not enough. */
  readonly whyNot?: (text: string) => string | undefined
}

/** Where the database is, by the kind of its engine. */
export type DatabaseLocation = {
  readonly kind: 'sqlite'
  /** The text of the setting. */
  readonly url: string
  /** A path of the file system, or `:memory:`. */
  readonly path: string
}

/** From `min` to `max`. `note` follows the bounds. */
export function wholeNumber(min: number, max: number, note: string): ValueKind<number> {
  return { mayBe: `a whole number from ${min} to ${max}, ${note}`, schema: integer(min, max) }
}

/** A whole number of things, at least 1. `unit` is their plural. */
export function count(unit: string, max = 1_000_000): ValueKind<number> {
  return { mayBe: `a whole number of ${unit} from 1 to ${max}`, schema: integer(1, max) }
}

/** A time in milliseconds, at least 1. `examples` follow the bounds. */
export function duration(max: string, examples: string): ValueKind<number> {
  return { mayBe: `a time from 1ms to ${max}, ${examples}`, schema: upTo(max, parseDuration) }
}

/** A number of bytes, at least 1. `examples` follow the bounds. */
export function size(max: string, examples: string): ValueKind<number> {
  return { mayBe: `a size from 1b to ${max}, ${examples}`, schema: upTo(max, parseSize) }
}

/** One of two or more words. */
export function oneOf<const T extends string>(...words: readonly T[]): ValueKind<T> {
  return {
    mayBe: words.length === 2 ? words.join(' or ') : `one of ${words.join(', ')}`,
    schema: z.enum(words),
  }
}

/** For the host of `server.listen`. */
export const listenAddress: ValueKind<string> = {
  mayBe: 'an IP address or a host name to listen on',
  schema: z.string().refine(text => isIP(text) !== 0 || /^(?!-)[\w-]+(\.[\w-]+)*$/.test(text)),
}

/** The extension decides how the file is read. */
export const limitsPath: ValueKind<string> = {
  mayBe: 'the path of a .json file or an ES module (.js, .mjs) with the rules of the limits',
  schema: z.string().regex(/\.(?:json|m?js)$/),
}

/** The proxies to trust: how many hops, or which addresses. */
export const trustedProxies: ValueKind<number | readonly string[]> = {
  mayBe:
    'the number of proxies in front, or a comma-separated list of addresses, ranges (10.0.0.0/8) ' +
    'and the names loopback, linklocal and uniquelocal',
  schema: parsed(parseTrustProxy),
}

/** The origins for CORS; `*` for all. */
export const origins: ValueKind<readonly string[] | '*'> = {
  mayBe: 'a comma-separated list of origins such as https://app.example.com, or *',
  schema: parsed(parseOrigins),
}

/** Not checked against the disk: opening it does that. */
export const databaseUrl: ValueKind<DatabaseLocation> = {
  mayBe: 'file:PATH, a path, or :memory:',
  schema: parsed(parseDatabaseUrl),
  whyNot: url =>
    hasUrlExtras(url)
      ? 'a file: URL has no parameters here: leave out ? and # and what follows them, or give the path without file: if they are part of its name'
      : undefined,
}

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

function parseDatabaseUrl(url: string): DatabaseLocation | undefined {
  const path = pathOfDatabase(url)
  // better-sqlite3 would trim the path and open another file.
  const isUsable = path !== undefined && path !== '' && path.trim() === path && !path.includes('\0')
  return isUsable ? { kind: 'sqlite', url, path } : undefined
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

function isOrigin(text: string): boolean {
  return /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text
}
