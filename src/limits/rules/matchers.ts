import type { Request } from 'express'
import { headerValues } from '../../http/headers.ts'
import { queryValues } from '../../http/query.ts'
import { memoize } from '../../platform/memoize.ts'
import { addresses, patterns, patternsByName, type TextTest } from './patterns.ts'
import { factsOf } from './request-facts.ts'
import { type RequestTest, requestTest } from './rule-values.ts'

/** Checks and compiles the keys by which rules match, each to a `RequestTest`, in the order in which they are asked. */
export const matchShape = {
  // HEAD is answered like GET, so a rule for GET matches both.
  method: patterns(text => text.toUpperCase())
    .transform((test): RequestTest => {
      return ({ method }) => test(method) || (method === 'HEAD' && test('GET'))
    })
    .optional(),

  /** Compared after decoding, with repeated slashes as one. */
  path: patterns()
    .transform(test => textTest(request => factsOf(request).path, test))
    .optional(),

  /** Addresses and ranges such as 203.0.113.0/24. */
  ip: addresses
    .transform(test => textTest(request => factsOf(request).ip, memoize(test)))
    .optional(),

  host: patterns(text => text.toLowerCase())
    .transform(test => textTest(request => factsOf(request).host, test))
    .optional(),

  userAgent: patterns()
    .transform(test => headerTest('user-agent', test))
    .optional(),

  header: patternsByName
    .transform(tests => allOf(tests.map(([name, test]) => headerTest(name.toLowerCase(), test))))
    .optional(),

  query: patternsByName
    .transform(tests =>
      allOf(
        tests.map(
          ([name, test]) =>
            request =>
              queryValues(request.url, name).some(test),
        ),
      ),
    )
    .optional(),

  match: requestTest.optional(),
}

type MatchShape = typeof matchShape

/** A test for each key that a rule has. */
export type MatchTests = { readonly [Key in keyof MatchShape]?: RequestTest | undefined }

const MATCH_KEYS = Object.keys(matchShape) as (keyof MatchShape)[]

/** Combines the tests of all keys into one. Without tests, every request matches. */
export function combineMatchers(tests: MatchTests): RequestTest {
  return allOf(MATCH_KEYS.map(key => tests[key]).filter(test => test !== undefined))
}

/** Whether a rule of the file has no key to match by, and so matches every request. */
export function matchesAll(rule: { readonly [Key in keyof MatchShape]?: unknown }): boolean {
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
