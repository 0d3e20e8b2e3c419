import { isIP, isIPv4, isIPv6 } from 'node:net'
import { z } from 'zod'

/** The text of each variable, by its name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A kind of value that settings can have: how its text is parsed, and what it may be in words. */
export interface ValueKind<T> {
  /** Completes the sentence "it may be …". */
  readonly mayBe: string
  /** Whether no message may show its text. */
  readonly isSecret?: true
  /** Whether its text may hold a password in a form that nothing but `maskCredentials` knows. */
  readonly mayHoldPassword?: true
  /** `undefined` if the text is wrong. `refuse` can say why, or which of the `variables` beside it is wrong instead. */
  read(text: string, variables: Environment, refuse: Refuse): T | undefined
}

export type Refuse = (mistake: Partial<Mistake>) => undefined

/** What is wrong. Fields that `refuse` does not get come from the text that is being read. */
export interface Mistake {
  readonly name: string
  /** The message masks what `maskCredentials` finds in it. */
  readonly text: string
  readonly mayBe: string
  /** Completes the sentence "NAME was TEXT, but …", where `mayBe` is not enough. It shows no credentials. */
  readonly why?: string | undefined
}

/** A kind of value that depends on nothing but its text. `schema` refuses a text, or turns it into `undefined`. */
function kindFrom<T>(mayBe: string, schema: z.ZodType<T | undefined, string>): ValueKind<T> {
  return { mayBe, read: text => schema.safeParse(text).data }
}

/** Text of one form. */
export function matching(form: RegExp, mayBe: string): ValueKind<string> {
  return kindFrom(mayBe, z.string().regex(form))
}

/** One of two or more words. */
export function oneOf<const T extends string>(...words: readonly T[]): ValueKind<T> {
  const mayBe = words.length === 2 ? words.join(' or ') : `one of ${words.join(', ')}`
  return kindFrom(mayBe, z.enum(words))
}

/** For the port of `server.listen`. */
export const portNumber: ValueKind<number> = kindFrom(
  'a whole number from 0 to 65535, where 0 picks a free port',
  between(0, 65_535, parseWhole),
)

/** A whole number of things, by default from 1 to a million. `unit` is their plural. */
export function count(unit: string, { min = 1, max = 1_000_000 } = {}): ValueKind<number> {
  const mayBe = `a whole number of ${unit} from ${min} to ${max}`
  return kindFrom(mayBe, between(min, max, parseWhole))
}

/** A time in milliseconds. `examples` follow the bounds. */
export function duration(max: string, examples: string, min = '1ms'): ValueKind<number> {
  const schema = between(parseDuration(min), parseDuration(max), parseDuration)
  return kindFrom(`a time from ${min} to ${max}, ${examples}`, schema)
}

/** A number of bytes, at least 1. `examples` follow the bounds. */
export function size(max: string, examples: string): ValueKind<number> {
  return kindFrom(`a size from 1b to ${max}, ${examples}`, between(1, parseSize(max), parseSize))
}

/** For the host of `server.listen`. */
export const listenAddress: ValueKind<string> = kindFrom(
  'an IP address or a host name to listen on',
  z.string().refine(text => isIPv6(text) || isHostName(text)),
)

/** The proxies to trust: how many hops, or which addresses. */
export const trustedProxies: ValueKind<number | readonly string[]> = kindFrom(
  'the number of proxies in front, or a comma-separated list of addresses, ranges (10.0.0.0/8) ' +
    'and the names loopback, linklocal and uniquelocal',
  z.string().transform(text => (/^\d{1,3}$/.test(text) ? Number(text) : parseList(text, isProxy))),
)

/** Texts that are nearly an origin, and what is wrong with them. */
const NO_ORIGINS: readonly (readonly [form: RegExp, why: string])[] = [
  [/\*/, 'a wildcard stands for no origins: list each, or * alone for all'],
  [/^[^:/]+(?::\d+)?\/?$/, 'it has no scheme: write one before it, such as https://'],
  [/\/$/, 'it ends with a slash: leave it out'],
  [/^(?:http:.*:80|https:.*:443)$/i, 'browsers leave out the default port'],
  [/[A-Z]/, 'browsers send it in lower case'],
]

/** The origins for CORS, as browsers and the shells around them send them; `*` for all. */
export const origins: ValueKind<readonly string[] | '*'> = {
  mayBe:
    'a comma-separated list of origins such as https://app.example.com or capacitor://localhost, or *',
  read: (text, _variables, refuse) => {
    if (text.trim() === '*') return '*'
    const entries = text.split(',').map(entry => entry.trim())
    const wrong = entries.filter(entry => !isOrigin(entry))
    for (const entry of wrong) {
      const [, why] = NO_ORIGINS.find(([form]) => form.test(entry)) ?? []
      refuse({ text: entry, why: why ?? 'it is no origin' })
    }
    return wrong.length === 0 ? entries : undefined
  },
}

/** Whether browsers send the text as an Origin. Schemes that URLs have no origin for are those of shells and extensions. */
function isOrigin(text: string): boolean {
  if (!/^https?:/.test(text)) return /^[a-z][a-z\d+.-]*:\/\/[a-z\d._~-]+(?::\d{1,5})?$/.test(text)
  return !text.includes('*') && URL.canParse(text) && new URL(text).origin === text
}

/** The hosts that requests may ask for; `*` for all. As in a URL, IPv6 may be in brackets, and a name may end with a dot. */
export const hostNames: ValueKind<readonly string[] | '*'> = kindFrom(
  'a comma-separated list of host names and IP addresses without ports, or *',
  z.string().transform(text => (text.trim() === '*' ? '*' : parseList(text, isHost))),
)

function isHost(text: string): boolean {
  return isIPv6(text.replace(/^\[(.*)\]$/, '$1')) || isHostName(text.replace(/\.$/, ''))
}

/**
 * Parses a time such as `30s`, `500ms`, `1 minute` or `2 hours`, or a number of seconds without a unit. Returns
 * milliseconds, or `undefined` for any other text.
 */
function parseDuration(text: string): number | undefined {
  const [, digits, ms, unit = 's'] =
    /^(\d{1,12}) *(?:(ms)|([smhd]|seconds?|minutes?|hours?|days?))?$/i.exec(text) ?? []
  const seconds = { s: 1, m: 60, h: 3600, d: 86_400 }[unit.charAt(0).toLowerCase()] ?? 0
  return digits === undefined ? undefined : Number(digits) * (ms ? 1 : seconds * 1000)
}

const YEAR_MS = 365 * 86_400_000

/** The milliseconds of a time as `parseDuration` reads it, or of a number of seconds; `undefined` unless above 0 and at most a year. */
export function durationMs(value: unknown): number | undefined {
  if (typeof value !== 'string' && typeof value !== 'number') return undefined
  const ms = typeof value === 'number' ? value * 1000 : parseDuration(value)
  return ms !== undefined && ms > 0 && ms <= YEAR_MS ? ms : undefined
}

function parseSize(text: string): number | undefined {
  const [, digits, unit = 'b'] = /^(\d{1,15}) *(b|kb|mb)?$/i.exec(text) ?? []
  const unitBytes = 1024 ** ['b', 'kb', 'mb'].indexOf(unit.toLowerCase())
  return digits === undefined ? undefined : Number(digits) * unitBytes
}

function parseWhole(text: string): number | undefined {
  return /^(?:0|[1-9]\d{0,8})$/.test(text) ? Number(text) : undefined
}

/** A schema of text that `parse` turns into a number from `min` to `max`. */
function between(min = 0, max = 0, parse: (text: string) => number | undefined) {
  return z.string().transform(parse).pipe(z.number().min(min).max(max))
}

/** The entries of a comma-separated list; `undefined` if one is wrong. */
function parseList(text: string, isEntry: (text: string) => boolean): string[] | undefined {
  const entries = text.split(',').map(entry => entry.trim())
  return entries.every(isEntry) ? entries : undefined
}

/** Not a range of 0 bits, which would trust everyone. */
function isProxy(text: string): boolean {
  const [, address = '', bits = '1'] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const size = Number(bits)
  const isRange = isIP(address) !== 0 && size >= 1 && size <= (isIPv4(address) ? 32 : 128)
  return isRange || ['loopback', 'linklocal', 'uniquelocal'].includes(text)
}

function isHostName(text: string): boolean {
  return /^(?!-)[\w-]+(\.[\w-]+)*$/.test(text)
}

/** Whether only programs of this machine can reach an IP address. */
export function isLoopback(address: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/i.test(address)
}
