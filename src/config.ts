import { readFileSync } from 'node:fs'
import { isIP, isIPv4 } from 'node:net'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { z } from 'zod'
import { parseDuration } from './duration.ts'
import { OperatorError } from './errors.ts'

/** The settings of the service, checked. Times are in milliseconds, sizes in bytes. */
export interface Config {
  readonly host: string
  /** 0 lets the system pick a free port. */
  readonly port: number
  readonly database: DatabaseLocation
  readonly cacheStore: 'memory' | 'none'
  /** `undefined` without limits. */
  readonly limitsFile: string | undefined
  /** The proxies to believe: how many hops, or which addresses; `false` for none. */
  readonly trustProxy: number | readonly string[] | false
  readonly logLevel: (typeof LOG_LEVELS)[number]
  /** `undefined` without CORS. */
  readonly corsOrigins: readonly string[] | '*' | undefined
  readonly bodyLimitBytes: number
  /** In code points. */
  readonly passwordMinChars: number
  readonly shutdownTimeoutMs: number
  readonly maxConnections: number
  /** How long a request may wait for its turn. */
  readonly maxEventLoopDelayMs: number
  readonly maxWaitingRequests: number
  readonly maxWaitingWrites: number
  /** To be hashed. */
  readonly maxWaitingPasswords: number
}

export interface DatabaseLocation {
  /** As it was set. */
  readonly url: string
  /** A path of the file system, or `:memory:`. */
  readonly path: string
}

export type Environment = Readonly<Record<string, string | undefined>>

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

const MAX_SHUTDOWN_MS = 3_600_000

const MAX_DELAY_MS = 60_000

const SIZE_UNITS_BYTES = new Map([
  ['', 1],
  ['b', 1],
  ['kb', 1024],
  ['mb', 1024 ** 2],
])

const MAX_BODY_BYTES = 100 * 1024 ** 2

interface Variable<T> {
  /** `undefined` where unset has a meaning of its own. */
  readonly default?: string
  readonly mayBe: string
  readonly schema: z.ZodType<T, string>
}

/** The table of all settings: what `.env.example` lists and what a refusal tells. */
export const VARIABLES = {
  HOST: variable({
    default: '127.0.0.1',
    mayBe: 'an IP address or a host name to listen on',
    schema: z.string().refine(text => isIP(text) !== 0 || /^(?!-)[\w-]+(\.[\w-]+)*$/.test(text)),
  }),
  PORT: variable({
    default: '3000',
    mayBe: 'a whole number from 0 to 65535, where 0 picks a free port',
    schema: wholeNumber(0, 65535),
  }),
  DATABASE_URL: variable({
    default: 'file:./data/users.db',
    mayBe: 'file:PATH, a path, or :memory:',
    schema: parsed(parseDatabaseUrl),
  }),
  CACHE_STORE: variable({
    default: 'memory',
    mayBe: 'memory or none',
    schema: z.enum(['memory', 'none']),
  }),
  LIMITS_FILE: variable({
    mayBe: 'the path of a .json file, or of an ES module (.js, .mjs), with the rules of the limits',
    schema: z.string().regex(/\.(?:json|m?js)$/),
  }),
  TRUST_PROXY: variable({
    mayBe:
      'the number of proxies in front, or a comma list of addresses, ranges (10.0.0.0/8) ' +
      'and the names loopback, linklocal and uniquelocal',
    schema: parsed(parseTrustProxy),
  }),
  LOG_LEVEL: variable({
    default: 'info',
    mayBe: `one of ${LOG_LEVELS.join(', ')}`,
    schema: z.enum(LOG_LEVELS),
  }),
  CORS_ORIGINS: variable({
    mayBe: 'a comma list of origins such as https://app.example.com, or *',
    schema: parsed(parseOrigins),
  }),
  BODY_LIMIT: variable({
    default: '100kb',
    mayBe: 'a size from 1b to 100mb, such as 100kb',
    schema: parsed(parseSize),
  }),
  PASSWORD_MIN_LENGTH: variable({
    default: '8',
    mayBe: 'a whole number of characters from 1 to 128',
    schema: wholeNumber(1, 128),
  }),
  SHUTDOWN_TIMEOUT: variable({
    default: '10s',
    mayBe: 'a time from 1ms to 1 hour, such as 10s, "1 minute", or a number of seconds',
    schema: duration(MAX_SHUTDOWN_MS),
  }),
  MAX_CONNECTIONS: variable({
    default: '10000',
    mayBe: 'a whole number of connections from 1 to 1000000',
    schema: wholeNumber(1, 1_000_000),
  }),
  MAX_EVENT_LOOP_DELAY: variable({
    default: '500ms',
    mayBe: 'a time from 1ms to 1 minute, such as 500ms',
    schema: duration(MAX_DELAY_MS),
  }),
  MAX_WAITING_REQUESTS: variable({
    default: '5000',
    mayBe: 'a whole number of requests from 1 to 1000000',
    schema: wholeNumber(1, 1_000_000),
  }),
  MAX_WAITING_WRITES: variable({
    default: '10000',
    mayBe: 'a whole number of writes from 1 to 1000000',
    schema: wholeNumber(1, 1_000_000),
  }),
  MAX_WAITING_PASSWORDS: variable({
    default: '250',
    mayBe: 'a whole number of passwords from 1 to 1000000',
    schema: wholeNumber(1, 1_000_000),
  }),
}

export type VariableName = keyof typeof VARIABLES

/**
 * The settings from the environment and, under it, a `.env` file; an empty variable counts as unset.
 * Throws a `OperatorError` with one line for each wrong value.
 */
export function loadConfig(environment: Environment, dotenvPath = '.env'): Config {
  const values = { ...withoutEmpty(readDotenv(dotenvPath)), ...withoutEmpty(environment) }
  const problems: string[] = []

  function read<T>(name: VariableName, setting: Variable<T>): T | undefined {
    const text = values[name] ?? setting.default
    if (text === undefined) return undefined
    const result = setting.schema.safeParse(text)
    if (result.success) return result.data
    problems.push(problemWith(name, text))
    return undefined
  }

  const config = {
    host: read('HOST', VARIABLES.HOST),
    port: read('PORT', VARIABLES.PORT),
    database: read('DATABASE_URL', VARIABLES.DATABASE_URL),
    cacheStore: read('CACHE_STORE', VARIABLES.CACHE_STORE),
    limitsFile: read('LIMITS_FILE', VARIABLES.LIMITS_FILE),
    trustProxy: read('TRUST_PROXY', VARIABLES.TRUST_PROXY) ?? false,
    logLevel: read('LOG_LEVEL', VARIABLES.LOG_LEVEL),
    corsOrigins: read('CORS_ORIGINS', VARIABLES.CORS_ORIGINS),
    bodyLimitBytes: read('BODY_LIMIT', VARIABLES.BODY_LIMIT),
    passwordMinChars: read('PASSWORD_MIN_LENGTH', VARIABLES.PASSWORD_MIN_LENGTH),
    shutdownTimeoutMs: read('SHUTDOWN_TIMEOUT', VARIABLES.SHUTDOWN_TIMEOUT),
    maxConnections: read('MAX_CONNECTIONS', VARIABLES.MAX_CONNECTIONS),
    maxEventLoopDelayMs: read('MAX_EVENT_LOOP_DELAY', VARIABLES.MAX_EVENT_LOOP_DELAY),
    maxWaitingRequests: read('MAX_WAITING_REQUESTS', VARIABLES.MAX_WAITING_REQUESTS),
    maxWaitingWrites: read('MAX_WAITING_WRITES', VARIABLES.MAX_WAITING_WRITES),
    maxWaitingPasswords: read('MAX_WAITING_PASSWORDS', VARIABLES.MAX_WAITING_PASSWORDS),
  }
  if (problems.length > 0) throw new OperatorError(problems)
  return Object.freeze(config as Config)
}

/**
 * The line for an operator whose setting cannot be used: name, value (credentials masked), what it may be,
 * and `why` where the value alone does not tell.
 */
export function problemWith(name: VariableName, value: string, why?: string): string {
  const reason = why === undefined ? '' : `, but ${why}`
  return `${name} was ${shown(value)}${reason}; it may be ${VARIABLES[name].mayBe}`
}

/** The line for an operator whose setting names something in which there is a mistake. */
export function mistakeIn(name: VariableName, value: string, mistake: string): string {
  return `${name} was ${shown(value)}: ${mistake}`
}

function shown(value: string): string {
  const masked = withoutUserInfo(value).replace(
    /\b(?=\w*(?:pass|pwd|secret|token|key))(\w+)=[^&\s]*/gi,
    '$1=***',
  )
  return JSON.stringify(masked.length > 200 ? `${masked.slice(0, 200)}…` : masked)
}

function withoutUserInfo(url: string): string {
  const start = url.indexOf('//') + 2
  const end = url.lastIndexOf('@')
  return start >= 2 && end >= start ? `${url.slice(0, start)}***${url.slice(end)}` : url
}

function variable<T>(definition: Variable<T>): Variable<T> {
  return definition
}

function withoutEmpty(values: Environment): Environment {
  return Object.fromEntries(Object.entries(values).filter(([, text]) => text !== ''))
}

function readDotenv(path: string): Environment {
  try {
    return parseEnv(readFileSync(path, 'utf8')) as Environment
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return {}
    throw new OperatorError([
      `${path} cannot be read (${code}); it may be a file of NAME=value lines`,
    ])
  }
}

/** A schema of text that `parse` turns into a value, or refuses by `undefined`. */
function parsed<T>(parse: (text: string) => T | undefined): z.ZodType<T, string> {
  return z.string().transform((text, context) => {
    const value = parse(text)
    if (value !== undefined) return value
    context.addIssue({ code: 'custom', message: 'refused' })
    return z.NEVER
  })
}

function wholeNumber(min: number, max: number): z.ZodType<number, string> {
  return z
    .string()
    .regex(/^(0|[1-9]\d{0,8})$/)
    .transform(Number)
    .pipe(z.number().min(min).max(max))
}

function duration(maxMs: number): z.ZodType<number, string> {
  return parsed(text => {
    const ms = parseDuration(text)
    return ms !== undefined && ms >= 1 && ms <= maxMs ? ms : undefined
  })
}

function parseSize(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,15}) *([a-z]*)$/i.exec(text) ?? []
  const bytes = Number(count) * (SIZE_UNITS_BYTES.get(unit.toLowerCase()) ?? Number.NaN)
  return bytes >= 1 && bytes <= MAX_BODY_BYTES ? bytes : undefined
}

function parseDatabaseUrl(url: string): DatabaseLocation | undefined {
  const path = pathOfDatabase(url)
  // better-sqlite3 would take blanks off the ends, and open another file.
  const isUsable = path !== undefined && path !== '' && path.trim() === path && !path.includes('\0')
  return isUsable ? { url, path } : undefined
}

function pathOfDatabase(url: string): string | undefined {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) return url.replace(/^file:/i, '')
  try {
    return fileURLToPath(url)
  } catch {
    // Of another scheme, or of another host.
    return undefined
  }
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
  // A range of all addresses would believe everyone.
  return bits >= 1 && bits <= (isIPv4(address) ? 32 : 128)
}

function parseOrigins(text: string): string[] | '*' | undefined {
  if (text.trim() === '*') return '*'
  const origins = text.split(',').map(origin => origin.trim())
  return origins.every(isOrigin) ? origins : undefined
}

function isOrigin(text: string): boolean {
  return /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text
}
