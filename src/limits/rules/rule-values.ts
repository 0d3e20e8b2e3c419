import type { Request, RequestHandler } from 'express'
import { z } from 'zod'
import { durationMs } from '../../config/values.ts'
import { ACTIONS, type Action } from '../../http/actions.ts'
import {
  type ClientKey,
  compileKey,
  isOfBody,
  KEY_NAMES,
  type Key,
  requireSync,
} from './client-key.ts'

/**
 * A schema for what `parse` returns no `undefined` for. `need` completes the sentence "must be …" about anything else, as does the
 * message of what `parse` throws.
 */
export function parsedBy<Input, Output = Input>(
  need: string,
  parse: (value: unknown) => Output | undefined,
): z.ZodType<Output, Input> {
  return z.custom<Input>().transform((value, context) => {
    let why = need
    try {
      const parsed = parse(value)
      if (parsed !== undefined) return parsed
    } catch (error) {
      why = (error as Error).message
    }
    context.addIssue(`must be ${why}`)
    return z.NEVER
  })
}

/** Whether a schema takes a value. */
export function fits<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
): value is z.input<Schema> {
  return schema.safeParse(value).success
}

export const ruleName = z
  .string('must be a name in quotes')
  .min(1, 'must be a name of at least one character')
  .max(200, 'must be a name of at most 200 characters')

export const flag = z.boolean('must be true or false')

const COUNT = 'a whole number from 1'

function parseCount(value: unknown): number | undefined {
  return fits(z.int().min(1), value) ? value : undefined
}

export const count = parsedBy<number>(COUNT, parseCount)

/** Such as "30s", "1 minute", "10 minutes", "1 hour", "1 day", or a number of seconds; at most a year. */
export type Duration = string | number

/** Parses to milliseconds. */
export const duration = parsedBy<Duration, number>(
  'a time such as "1 day", more than 0 and at most a year',
  durationMs,
)

export type OrFunction<Value> = Value | ((request: Request) => Value)

/** Parses to a number, or to a function that throws if `parse` makes none of what the function of the file returns. */
function numberOrFunction<Given>(
  name: string,
  need: string,
  parse: (value: unknown) => number | undefined,
) {
  return parsedBy<OrFunction<Given>, OrFunction<number>>(`${need}, or a function`, given => {
    if (typeof given !== 'function') return parse(given)
    return request => {
      const result = requireSync<unknown>(given(request))
      const number = parse(result)
      if (number === undefined) throw new TypeError(`${name} returned ${String(result)}`)
      return number
    }
  })
}

export const countOrFunction = numberOrFunction<number>('to', COUNT, parseCount)

export const durationOrFunction = numberOrFunction<Duration>(
  'within',
  'a time such as "1 minute"',
  durationMs,
)

/** Throws if a function of the rule does. */
export type RequestTest = (request: Request) => boolean

export const requestTest = parsedBy<RequestTest>('a function of the request', given =>
  typeof given === 'function'
    ? request => Boolean(requireSync<unknown>(given(request)))
    : undefined,
)

const statusList = z.array(z.int().min(200).max(599)).min(1)

export const statuses = parsedBy<readonly number[], ReadonlySet<number>>(
  'a list of statuses from 200 to 599',
  given => (fits(statusList, given) ? new Set(given) : undefined),
)

const actionList = z.array(z.enum(ACTIONS)).min(1)

export const actions = parsedBy<readonly Action[]>(`a list of ${ACTIONS.join(', ')}`, given =>
  fits(actionList, given) ? given : undefined,
)

/** `withBody` allows keys of the body. */
export function key({ withBody }: { readonly withBody: boolean }): z.ZodType<ClientKey, Key> {
  const names = KEY_NAMES.filter(name => withBody || !isOfBody(name))
  return parsedBy<Key, ClientKey>(
    `one of ${names.join(', ')}, a function, or a list of them`,
    given => {
      const compiled = compileKey(given)
      return compiled?.needsBody && !withBody ? undefined : compiled
    },
  )
}

// The characters of a header value: RFC 9110 5.5.
const headerValue = z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/)

// A token of RFC 9110 5.6.2, except the headers that frame a message, and X-Request-Id, which identifies it in the log.
const headerName = z
  .string()
  .regex(
    /^(?!(?:connection|keep-alive|trailer|transfer-encoding|upgrade|x-request-id)$)[\w!#$%&'*+.^`|~-]+$/i,
  )

const fixedAnswer = z.union([
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

export type FixedAnswer = z.input<typeof fixedAnswer>

/** The answer instead of 429: a redirect, another status, or the answer of a function. */
export type Answer = FixedAnswer | RequestHandler

export const answer = parsedBy<Answer>(
  '{"redirect", "alert"} with a target in ASCII, {"status", "message", "headers"} with a status from 200 to 599, or a function',
  given =>
    typeof given === 'function' || fits(fixedAnswer, given) ? (given as Answer) : undefined,
)

/** The type of a rule, as in its notices. */
export type RuleType = 'safelist' | 'blocklist' | 'ban' | 'throttle' | 'track' | 'rateLimit'

/** A compiled rule of any kind. Its functions throw if those of the file do. */
export interface CompiledRule {
  readonly type: RuleType
  readonly name: string
  readonly isDryRun: boolean
  readonly matches: RequestTest
}

/** What a rule has that counts: `limit` requests of a key pass in each window of `windowMs`. */
export interface CompiledCounter {
  readonly by: ClientKey
  readonly limit: number | ((request: Request) => number)
  readonly windowMs: number | ((request: Request) => number)
}

/** A rule that denies what is over its limit. */
export interface LimitRule extends CompiledRule, CompiledCounter {
  readonly answer?: Answer | undefined
}
