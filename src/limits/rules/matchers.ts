import { METHODS } from 'node:http'
import type { Request } from 'express'
import type { z } from 'zod'
import type { Matching, Patterns } from './limits-file.ts'
import { memoize } from './memoize.ts'
import { listOf, type TextTest } from './patterns.ts'
import { factsOf, headerValues, queryValues } from './request-facts.ts'
import { requireSync } from './require-sync.ts'
import { addresses, functionOf, patterns, patternsByName } from './rule-values.ts'

/** Throws if a function of the rule does. */
export type RequestTest = (request: Request) => boolean

/** Everything about one key by which rules match requests, except its type in `Matching`. */
interface Matcher<Value> {
  /** Checks a value and compiles it. */
  readonly schema: z.ZodType<RequestTest, Value>
  /** What to say about a rule whose value is allowed but surely a mistake, such as `matches no request: …`. */
  readonly findWarnings?: (value: Value) => readonly string[]
}

type Values = Required<Matching>

type MatchKey = keyof Values

/** In the order in which they are asked. A new key needs an entry here and in `Matching`. */
export const MATCHERS: { readonly [Key in MatchKey]: Matcher<Values[Key]> } = {
  method: {
    // HEAD is answered like GET, so a rule for GET matches both.
    schema: patterns(text => text.toUpperCase()).transform(test => {
      return ({ method }: Request) => test(method) || (method === 'HEAD' && test('GET'))
    }),
    findWarnings: value => {
      const isUnknown = allAre(value, text => !METHODS.includes(text.toUpperCase()))
      return isUnknown ? ['matches no request: there is no such method'] : []
    },
  },

  path: {
    schema: patterns().transform(test => textTest(request => factsOf(request).path, test)),
    findWarnings: value => {
      const isRelative = allAre(value, text => !text.startsWith('/'))
      // A path may contain an encoded question mark, so such a pattern may match something, but not what was meant.
      const withQuery = listOf(value).filter(text => typeof text === 'string' && text.includes('?'))
      return [
        ...(isRelative ? ['matches no request: every path begins with /'] : []),
        ...withQuery.map(
          text => `has the path ${JSON.stringify(text)}: a path has no query, use the key query`,
        ),
      ]
    },
  },

  ip: {
    schema: addresses.transform(test => textTest(request => factsOf(request).ip, memoize(test))),
  },

  host: {
    schema: patterns(text => text.toLowerCase()).transform(test =>
      textTest(request => factsOf(request).host, test),
    ),
    findWarnings: value => {
      const hasPort = allAre(value, text => /^[^:]*:\d+$/.test(text))
      return hasPort ? ['matches no request: hosts are compared without their port'] : []
    },
  },

  userAgent: {
    schema: patterns().transform(test => headerTest('user-agent', test)),
  },

  header: {
    schema: patternsByName.transform(tests =>
      allOf(tests.map(([name, test]) => headerTest(name.toLowerCase(), test))),
    ),
    findWarnings: value => {
      const reason = whyNoHeader(Object.keys(value))
      return reason === undefined ? [] : [`matches no request: ${reason}`]
    },
  },

  query: {
    schema: patternsByName.transform(tests =>
      allOf(
        tests.map(
          ([name, test]) =>
            request =>
              queryValues(request, name).some(test),
        ),
      ),
    ),
  },

  match: {
    schema: functionOf<Values['match']>('must be a function of the request').transform(match => {
      return (request: Request) => Boolean(requireSync(match(request)))
    }),
  },
}

export const MATCH_KEYS = Object.keys(MATCHERS) as MatchKey[]

/** A schema for each key, which a rule may leave out. */
export const matchShape = Object.fromEntries(
  MATCH_KEYS.map(key => [key, MATCHERS[key].schema.optional()]),
) as { readonly [Key in MatchKey]: z.ZodOptional<z.ZodType<RequestTest, Values[Key]>> }

/** A test for each key that a rule has. */
export type MatchTests = { readonly [Key in MatchKey]?: RequestTest | undefined }

/** Combines the tests of all keys into one. Without tests, every request matches. */
export function combineMatchers(tests: MatchTests): RequestTest {
  return allOf(MATCH_KEYS.map(key => tests[key]).filter(test => test !== undefined))
}

/** Whether a rule has no key to match by, and so matches every request. */
export function matchesAll(rule: Matching): boolean {
  return MATCH_KEYS.every(key => rule[key] === undefined)
}

/** What to say about a rule whose values are allowed but surely a mistake, such as `matches no request: …`. */
export function findMatchWarnings(rule: Matching): readonly string[] {
  return MATCH_KEYS.flatMap(key => findKeyWarnings(key, rule))
}

function findKeyWarnings<Key extends MatchKey>(key: Key, rule: Matching): readonly string[] {
  const value = rule[key]
  return value === undefined ? [] : (MATCHERS[key].findWarnings?.(value as Values[Key]) ?? [])
}

/** A token: RFC 9110 5.6.2. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/

/** Why no request can have all of these headers; `undefined` if one could. */
export function whyNoHeader(names: readonly string[]): string | undefined {
  const name = names.find(each => !TOKEN.test(each))
  return name === undefined ? undefined : `no header can have the name ${JSON.stringify(name)}`
}

/** A request without the text does not match. */
function textTest(find: (request: Request) => string | undefined, test: TextTest): RequestTest {
  return request => {
    const text = find(request)
    return text !== undefined && test(text)
  }
}

function headerTest(lowerCaseName: string, test: TextTest): RequestTest {
  return request => headerValues(request, lowerCaseName).some(test)
}

function allOf(tests: readonly RequestTest[]): RequestTest {
  const [only] = tests
  if (only === undefined) return () => true
  return tests.length === 1 ? only : request => tests.every(test => test(request))
}

/** Whether all patterns are texts that pass the test. One with a `*` never does: it might match anything. */
function allAre(given: Patterns, test: (text: string) => boolean): boolean {
  return listOf(given).every(
    pattern => typeof pattern === 'string' && !pattern.includes('*') && test(pattern),
  )
}
