import { BlockList, isIP, isIPv4 } from 'node:net'
import type { Request } from 'express'
import { atOnce } from './at-once.ts'
import type { Pattern, Patterns } from './limits-file.ts'
import { remembering } from './remembering.ts'
import { factsOf, headerValues, queryValues } from './request-facts.ts'

export type RequestTest = (request: Request) => boolean

type TextTest = (text: string) => boolean

/** The keys of a rule that say which requests it is about. */
export interface MatchKeys {
  readonly method?: Patterns | undefined
  readonly path?: Patterns | undefined
  readonly ip?: string | readonly string[] | undefined
  readonly host?: Patterns | undefined
  readonly userAgent?: Patterns | undefined
  readonly header?: Readonly<Record<string, Patterns>> | undefined
  readonly query?: Readonly<Record<string, Patterns>> | undefined
  readonly match?: ((request: Request) => unknown) | undefined
}

/** Whether all keys of a rule match; without any, every request does. May throw where `match` does. */
export function compileMatch(keys: MatchKeys): RequestTest {
  const { match } = keys
  const candidates: readonly (RequestTest | false)[] = [
    keys.method !== undefined && methodTest(keys.method),
    keys.path !== undefined && textTest(keys.path, request => factsOf(request).path),
    keys.ip !== undefined && addressTest([keys.ip].flat()),
    keys.host !== undefined && textTest(inLowerCase(keys.host), request => factsOf(request).host),
    keys.userAgent !== undefined &&
      anyTest(keys.userAgent, request => headerValues(request, 'user-agent')),
    ...Object.entries(keys.header ?? {}).map(([name, patterns]) =>
      anyTest(patterns, request => headerValues(request, name.toLowerCase())),
    ),
    ...Object.entries(keys.query ?? {}).map(([name, patterns]) =>
      anyTest(patterns, request => queryValues(request, name)),
    ),
    match !== undefined && (request => Boolean(atOnce(match(request)))),
  ]
  const tests = candidates.filter(test => test !== false)
  return request => tests.every(test => test(request))
}

/** Addresses and ranges as `net` has them; throws for what is neither. */
export function compileAddresses(entries: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', prefix, ...rest] = entry.split('/')
    const family = isIPv4(address) ? 'ipv4' : 'ipv6'
    const bits = family === 'ipv4' ? 32 : 128
    if (isIP(address) === 0 || rest.length > 0 || address.includes('%')) throw new TypeError(entry)
    if (prefix === undefined) list.addAddress(address, family)
    else if (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits) {
      list.addSubnet(address, Number(prefix), family)
    } else throw new TypeError(entry)
  }
  // An IPv4 client of a server that listens on IPv6 has an address such as ::ffff:203.0.113.7; so it is looked up.
  return address => list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')
}

/** Throws a `SyntaxError` for a regular expression that is none. */
export function compilePatterns(patterns: Patterns): TextTest {
  const tests = listOf(patterns).map(compilePattern)
  const [only] = tests
  return tests.length === 1 && only !== undefined ? only : text => tests.some(test => test(text))
}

function listOf(patterns: Patterns): readonly Pattern[] {
  return Array.isArray(patterns) ? patterns : [patterns as Pattern]
}

function compilePattern(pattern: Pattern): TextTest {
  if (typeof pattern !== 'string') return expressionTest(toRegExp(pattern))
  return pattern.includes('*') ? wildcardTest(pattern) : text => text === pattern
}

/** By search and not by a regular expression, which with several stars could be made to take for ever. */
function wildcardTest(pattern: string): TextTest {
  const [start = '', ...others] = pattern.split('*')
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

function expressionTest(expression: RegExp): TextTest {
  return text => expression.test(text)
}

/** Without the flags by which an expression would remember where it left off. */
export function toRegExp(pattern: Exclude<Pattern, string>): RegExp {
  return pattern instanceof RegExp
    ? new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''))
    : new RegExp(pattern.regex, pattern.flags)
}

function inLowerCase(patterns: Patterns): Patterns {
  return listOf(patterns).map(pattern =>
    typeof pattern === 'string' ? pattern.toLowerCase() : pattern,
  )
}

function textTest(
  patterns: Patterns,
  textOf: (request: Request) => string | undefined,
): RequestTest {
  const test = compilePatterns(patterns)
  return request => {
    const text = textOf(request)
    return text !== undefined && test(text)
  }
}

function anyTest(
  patterns: Patterns,
  valuesOf: (request: Request) => readonly string[],
): RequestTest {
  const test = compilePatterns(patterns)
  return request => valuesOf(request).some(test)
}

/** HEAD asks for what GET would, so a rule for GET is one for both. */
function methodTest(patterns: Patterns): RequestTest {
  const upperCase = listOf(patterns).map(pattern =>
    typeof pattern === 'string' ? pattern.toUpperCase() : pattern,
  )
  const test = compilePatterns(upperCase)
  return ({ method }) => test(method) || (method === 'HEAD' && test('GET'))
}

function addressTest(entries: readonly string[]): RequestTest {
  const includes = remembering(compileAddresses(entries))
  return request => {
    const { ip } = factsOf(request)
    return ip !== undefined && includes(ip)
  }
}
