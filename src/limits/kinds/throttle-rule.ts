import { z } from 'zod'
import { byAddress, compileFilter, filterShape, type ShapeOf } from '../rules/filter-rule.ts'
import { answer, count, duration } from '../rules/rule-values.ts'

const shape = {
  ...filterShape,
  limit: count,
  period: duration,
  by: byAddress,
  with: answer.optional(),
} satisfies ShapeOf<'throttle'>

/** What is over the limit is denied, before all routes. Its handlers are those of `limitRequests`. */
export const throttle = {
  type: 'throttle',
  shape,
  schema: z.strictObject(shape).transform(rule => {
    const { limit, period: windowMs, by: keyOf, with: answer } = rule
    return { ...compileFilter(rule), keyOf, limit, windowMs, answer }
  }),
} as const
