import type { RequestHandler } from 'express'
import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import type { RuleInForce } from '../rule-in-force.ts'
import {
  compileFilter,
  type FilterShape,
  filterShape,
  type InputOf,
} from '../rules/compiled-rule.ts'

export type FilterRule = InputOf<FilterShape>

/** Matching requests get 403. */
export const blocklist = {
  type: 'blocklist',
  schema: z.strictObject(filterShape).transform(compileFilter),
} as const

/** Made once, so that a flood of denied requests does not create an error for each. */
export const BLOCKED = new ServiceError('blocked')

/** What matches is `blocked`. */
export function block({ rule, tally, onMatch, refuse }: RuleInForce): RequestHandler {
  return onMatch((state, _response, next) => {
    tally.counted++
    refuse(state)
    next(rule.isDryRun ? undefined : BLOCKED)
  })
}
