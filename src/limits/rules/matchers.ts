import type { Request } from 'express'
import type { z } from 'zod'
import { headerValues } from '../../http/headers.ts'
import { memoize } from '../../platform/memoize.ts'
import type { Matching } from './limits-file.ts'
import type { TextTest } from './patterns.ts'
import { factsOf, queryValues } from './request-facts.ts'
import { requireSync } from './require-sync.ts'
import { addresses, functionOf, patterns, patternsByName } from './rule-values.ts'

/** Throws if a function of the rule does. */
export type RequestTest = (request: Request) => boolean

type Values = Required<Matching>

type MatchKey = keyof Values

/** Checks and compiles each key by which rules match, in the order in which they are asked. */
const MATCHERS: { readonly [Key in MatchKey]: z.ZodType<RequestTest, Values[Key]> } = {
  // HEAD is answered like GET, so a rule for GET matches both.
  method: patterns(text => text.toUpperCase()).transform(test => {
    return ({ method }: Request) => test(method) || (method === 'HEAD' && test('GET'))
  }),

  path: patterns().transform(test => textTest(request => factsOf(request).path, test)),

  ip: addresses.transform(test => textTest(request => factsOf(request).ip, memoize(test))),

  host: patterns(text => text.toLowerCase()).transform(test =>
    textTest(request => factsOf(request).host, test),
  ),

  userAgent: patterns().transform(test => headerTest('user-agent', test)),

  header: patternsByName.transform(tests =>
    allOf(tests.map(([name, test]) => headerTest(name.toLowerCase(), test))),
  ),

  query: patternsByName.transform(tests =>
    allOf(
      tests.map(
        ([name, test]) =>
          request =>
            queryValues(request, name).some(test),
      ),
    ),
  ),

  match: functionOf<Values['match']>('must be a function of the request').transform(match => {
    return (request: Request) => Boolean(requireSync(match(request)))
  }),
}

const MATCH_KEYS = Object.keys(MATCHERS) as MatchKey[]

/** A schema for each key, which a rule may leave out. */
export const matchShape = Object.fromEntries(
  MATCH_KEYS.map(key => [key, MATCHERS[key].optional()]),
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
