import { z } from 'zod'
import { ACTIONS } from '../../http/actions.ts'
import {
  byAddress,
  compileFilter,
  filterShape,
  misfit,
  type ShapeOf,
} from '../rules/filter-rule.ts'
import {
  actions,
  answer,
  count,
  countOrFunction,
  duration,
  durationOrFunction,
  flag,
  key,
  ruleName,
} from '../rules/rule-values.ts'

const throttleShape = {
  ...filterShape,
  limit: count,
  period: duration,
  by: byAddress,
  with: answer.optional(),
} satisfies ShapeOf<'throttle'>

/** What is over the limit is denied, before all routes. Its handlers are those of `limitRequests`, as those of `rateLimits`. */
export const throttle = {
  type: 'throttle',
  shape: throttleShape,
  schema: z.strictObject(throttleShape).transform(rule => {
    const { limit, period: windowMs, by: keyOf, with: answer } = rule
    return { ...compileFilter(rule), keyOf, limit, windowMs, answer }
  }),
} as const

const rateLimitShape = {
  name: ruleName,
  to: countOrFunction,
  within: durationOrFunction,
  only: actions.optional(),
  except: actions.optional(),
  by: key({ withBody: true }).prefault('ip'),
  with: answer.optional(),
  dryRun: flag.default(false),
} satisfies ShapeOf<'rateLimits'>

/** What is over the limit is denied, on the routes of its actions. */
export const rateLimits = {
  type: 'rateLimit',
  shape: rateLimitShape,
  schema: z
    .strictObject(rateLimitShape)
    .refine(
      rule => rule.only === undefined || rule.except === undefined,
      misfit('except', 'cannot be given together with only'),
    )
    .transform(({ name, dryRun, only = ACTIONS, except = [], ...rule }) => ({
      ...compileFilter({ name, dryRun }),
      actions: only.filter(action => !except.includes(action)),
      keyOf: rule.by,
      limit: rule.to,
      windowMs: rule.within,
      answer: rule.with,
    })),
} as const
