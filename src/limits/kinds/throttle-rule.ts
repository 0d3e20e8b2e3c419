import { z } from 'zod'
import {
  byAddress,
  compileFilter,
  type FilterShape,
  filterShape,
  type InputOf,
} from '../rules/compiled-rule.ts'
import { answer, count, duration } from '../rules/rule-values.ts'

const shape = {
  /** How many requests of a key pass in each period. */
  limit: count,
  period: duration,
  by: byAddress,
  with: answer.optional(),
}

export type ThrottleRule = InputOf<FilterShape & typeof shape>

/** Matching requests over the limit get 429. Its handler is that of `limitRequests`. */
export const throttle = {
  type: 'throttle',
  schema: z.strictObject({ ...filterShape, ...shape }).transform(rule => ({
    ...compileFilter(rule),
    by: rule.by,
    limit: rule.limit,
    windowMs: rule.period,
    answer: rule.with,
  })),
} as const
