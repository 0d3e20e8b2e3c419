import { BlockList, isIP, isIPv4 } from 'node:net'
import { isRegExp } from 'node:util/types'
import { z } from 'zod'
import { isObject } from '../../platform/json.ts'
import { fits, parsedBy } from './rule-values.ts'

const pattern = z.union([
  z.string(),
  // By its kind: one of a test may be of another realm.
  z.custom<RegExp>(isRegExp),
  z.strictObject({
    regex: z.string(),
    flags: z
      .string()
      .regex(/^[imsu]*$/)
      .optional(),
  }),
])

/** Text that must match exactly, except that `*` stands for any characters; or a regular expression. */
export type Pattern = z.input<typeof pattern>

export type Patterns = Pattern | readonly Pattern[]

const patternOrList = z.union([pattern, z.array(pattern).min(1)])

export type TextTest = (text: string) => boolean

/** Parses to a test of whether a text matches one of the patterns. `normalize` is applied to patterns that are text. */
export function patterns(normalize?: (text: string) => string): z.ZodType<TextTest, Patterns> {
  return parsedBy<Patterns, TextTest>(
    'a pattern (text with * for any characters, or {"regex", "flags"} with flags of i, m, s and u) or a list of them',
    given => (fits(patternOrList, given) ? compilePatterns([given].flat(), normalize) : undefined),
  )
}

type PatternsByName = Readonly<Record<string, Patterns>>

/** Parses to names, each with its test. */
export const patternsByName = parsedBy<PatternsByName>('an object {NAME: pattern}', given =>
  isObject(given) && Object.keys(given).length > 0 && !Object.hasOwn(given, '')
    ? (given as PatternsByName)
    : undefined,
).transform((given, context) =>
  Object.entries(given).map(([name, value]): readonly [string, TextTest] => {
    const { data, error } = patterns().safeParse(value)
    if (data !== undefined) return [name, data]
    for (const { message } of error?.issues ?? []) {
      context.addIssue({ code: 'custom', path: [name], message })
    }
    return z.NEVER
  }),
)

const addressOrList = z.union([z.string(), z.array(z.string()).min(1)])

/** Parses to a test of whether an address is one of them. */
export const addresses = parsedBy<string | readonly string[], TextTest>(
  'an address or a range such as "203.0.113.0/24", or a list of them',
  given => (fits(addressOrList, given) ? compileAddresses([given].flat()) : undefined),
)

/** Addresses of IPv4, as IPv6 writes them. */
const IN_IPV6 = new BlockList()
IN_IPV6.addSubnet('::ffff:0:0', 96, 'ipv6')

/** Compiles a test of whether an address is in a list of addresses and ranges; `undefined` if an entry is neither. */
function compileAddresses(entries: readonly string[]): TextTest | undefined {
  const list = new BlockList()
  // Ranges of IPv6 in which all of IPv4 lies, such as ::/0. They mean no client of IPv4.
  const wide = new BlockList()
  for (const entry of entries) {
    const [address = '', prefix, ...rest] = entry.split('/')
    const family = isIPv4(address) ? 'ipv4' : 'ipv6'
    const bits = family === 'ipv4' ? 32 : 128
    if (isIP(address) === 0 || rest.length > 0 || address.includes('%')) return undefined
    if (prefix === undefined) list.addAddress(address, family)
    else if (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits) {
      const isWide = family === 'ipv6' && Number(prefix) < 96
      ;(isWide ? wide : list).addSubnet(address, Number(prefix), family)
    } else return undefined
  }
  // BlockList matches ::ffff:203.0.113.7, an IPv4 client of a server that listens on IPv6, with IPv4 ranges.
  return address =>
    isIPv4(address)
      ? list.check(address, 'ipv4')
      : list.check(address, 'ipv6') ||
        (!IN_IPV6.check(address, 'ipv6') && wide.check(address, 'ipv6'))
}

/**
 * Compiles a test of whether one of the patterns matches a text. `normalize` is applied to patterns that are text.
 * Throws for a regular expression that does not compile, with a message that completes "must be …".
 */
function compilePatterns(
  patterns: readonly Pattern[],
  normalize: (text: string) => string = text => text,
): TextTest {
  const tests = patterns.map((pattern): TextTest => {
    if (typeof pattern === 'string') return compileText(normalize(pattern))
    const expression = toRegExp(pattern)
    return text => expression.test(text)
  })
  const [only] = tests
  return tests.length === 1 && only !== undefined ? only : text => tests.some(test => test(text))
}

/** Searches the parts in their order. A regular expression with several stars could take forever. */
function compileText(pattern: string): TextTest {
  const [start = '', ...others] = pattern.split('*')
  if (others.length === 0) return text => text === pattern
  const end = others.pop() ?? ''
  const middle = others.filter(part => part !== '')
  return text => {
    if (text.length < start.length + end.length) return false
    if (!text.startsWith(start) || !text.endsWith(end)) return false
    let position = start.length
    for (const part of middle) {
      const found = text.indexOf(part, position)
      if (found < 0) return false
      position = found + part.length
    }
    return position <= text.length - end.length
  }
}

/** Drops the flags g and y: with them an expression continues where its last match ended. */
function toRegExp(pattern: Exclude<Pattern, string>): RegExp {
  if (isRegExp(pattern)) return new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''))
  try {
    return new RegExp(pattern.regex, pattern.flags)
  } catch (cause) {
    const why = (cause as Error).message
    throw new TypeError(`a regular expression that compiles (${why})`, { cause })
  }
}
