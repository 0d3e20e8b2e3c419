import { isRegExp } from 'node:util/types'
import type { Request } from 'express'
import { z } from 'zod'
import { durationMs } from '../../config/values.ts'
import { ACTIONS, type Action } from '../../http/actions.ts'
import { isObject } from '../../platform/json.ts'
import { compileKey, isKeyName, type KeyOf, listKeyNames } from './client-key.ts'
import type { Answer, Duration, Key, Patterns, RateLimitRule } from './limits-file.ts'
import { compileAddresses, compilePatterns, type TextTest } from './patterns.ts'
import { requireSync } from './require-sync.ts'

function isFunction(value: unknown): boolean {
  return typeof value === 'function'
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1
}

/** A schema for values that pass `test`. For others, zod still checks how the keys of the rule fit together. */
function custom<T>(test: (value: unknown) => boolean, message: string): z.ZodCustom<T, T> {
  return z.custom<T>(test, { error: message, abort: false })
}

export const ruleName = z
  .string('must be a name in quotes')
  .min(1, 'must be a name of at least one character')
  .max(200, 'must be a name of at most 200 characters')

export const flag = z.boolean('must be true or false')

export const count = custom<number>(isCount, 'must be a whole number from 1')

/** Parses to milliseconds. */
export const duration = custom<Duration>(
  value => durationMs(value) !== undefined,
  'must be a time such as "1 day", more than 0 and at most a year',
).transform(value => durationMs(value) as number)

/** Parses to the number that `parse` makes of a value, or to a function that throws if `parse` makes none of its result. */
function numberOrFunction<Name extends 'to' | 'within'>(
  name: Name,
  parse: (value: unknown) => number | undefined,
  need: string,
) {
  return custom<RateLimitRule[Name]>(
    value => isFunction(value) || parse(value) !== undefined,
    `must be ${need}, or a function`,
  ).transform(given => {
    if (typeof given !== 'function') return parse(given) as number
    return (request: Request): number => {
      const result = requireSync<unknown>(given(request))
      const number = parse(result)
      if (number === undefined) throw new TypeError(`${name} returned ${String(result)}`)
      return number
    }
  })
}

export const countOrFunction = numberOrFunction(
  'to',
  value => (isCount(value) ? value : undefined),
  'a whole number from 1',
)

export const durationOrFunction = numberOrFunction(
  'within',
  durationMs,
  'a time such as "1 minute"',
)

/** A function of the file. What it takes and returns is only known when it is called. */
export function functionOf<T>(message: string): z.ZodType<T, T> {
  return custom<T>(isFunction, message)
}

/** Parses to a set. */
export const statuses = custom<readonly number[]>(
  value => z.array(z.int().min(200).max(599)).min(1).safeParse(value).success,
  'must be a list of statuses from 200 to 599',
).transform(list => new Set(list))

export const actions = custom<readonly Action[]>(
  value => z.array(z.enum(ACTIONS)).min(1).safeParse(value).success,
  `must be a list of ${ACTIONS.join(', ')}`,
)

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

const patternShape = z.union([pattern, z.array(pattern).min(1)])

/** Parses to a test of whether a text matches one of the patterns. `normalize` is applied to patterns that are text. */
export function patterns(normalize?: (text: string) => string): z.ZodType<TextTest, Patterns> {
  return custom<Patterns>(
    value => patternShape.safeParse(value).success,
    'must be a pattern (text with * for any characters, or {"regex", "flags"} with flags of i, m, s and u) or a list of them',
  ).transform(
    compileOr(
      value => compilePatterns(value, normalize),
      ({ message }) => `must be a regular expression that compiles (${message})`,
    ),
  )
}

/** Parses to names, each with its test. */
export const patternsByName = custom<Readonly<Record<string, Patterns>>>(
  value => isObject(value) && Object.keys(value).length > 0 && !Object.hasOwn(value, ''),
  'must be an object {NAME: pattern}',
).transform((value, context) =>
  Object.entries(value).map(([name, given]): readonly [string, TextTest] => {
    const result = patterns().safeParse(given)
    if (result.success) return [name, result.data]
    for (const { message } of result.error.issues) {
      context.addIssue({ code: 'custom', path: [name], message })
    }
    return z.NEVER
  }),
)

const ADDRESSES_RULE = 'must be an address or a range such as "203.0.113.0/24", or a list of them'

/** Parses to a test of whether an address is one of them. */
export const addresses = custom<string | readonly string[]>(
  value => z.union([z.string(), z.array(z.string()).min(1)]).safeParse(value).success,
  ADDRESSES_RULE,
).transform(
  compileOr(
    value => compileAddresses([value].flat()),
    () => ADDRESSES_RULE,
  ),
)

/** Parses to a function that finds the key of a request; `withBody` allows keys of the body. */
export function key(allowed: { readonly withBody: boolean }): z.ZodType<KeyOf, Key> {
  const isPart = (part: unknown) =>
    isFunction(part) || (typeof part === 'string' && isKeyName(part, allowed))
  return custom<Key>(
    value => (Array.isArray(value) ? value.length > 0 && value.every(isPart) : isPart(value)),
    `must be one of ${listKeyNames(allowed)}, a function, or a list of them`,
  ).transform(compileKey)
}

// The characters of a header value: RFC 9110 5.5.
const headerValue = z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/)

// A token of RFC 9110 5.6.2, except the headers that frame a message, and X-Request-Id, which identifies it in the log.
const headerName = z
  .string()
  .regex(
    /^(?!(?:connection|keep-alive|trailer|transfer-encoding|upgrade|x-request-id)$)[\w!#$%&'*+.^`|~-]+$/i,
  )

const answerShape = z.union([
  z.strictObject({
    redirect: z.string().regex(/^[\x21-\x7e]+$/),
    alert: z.string().optional(),
  }),
  z.strictObject({
    status: z.int().min(200).max(599).optional(),
    message: z.string().optional(),
    headers: z.record(headerName, headerValue).optional(),
  }),
])

export const answer = custom<Answer>(
  value => isFunction(value) || answerShape.safeParse(value).success,
  'must be {"redirect", "alert"} with a target in ASCII, {"status", "message", "headers"} with a status from 200 to 599, or a function',
)

/** Compiles a value. If `compile` throws, the value is refused with the message of `messageOf`. */
function compileOr<Input, Output>(
  compile: (value: Input) => Output,
  messageOf: (error: Error) => string,
) {
  return (value: Input, context: z.RefinementCtx): Output => {
    try {
      return compile(value)
    } catch (error) {
      context.addIssue(messageOf(error as Error))
      return z.NEVER
    }
  }
}
