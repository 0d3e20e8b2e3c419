import type { RequestHandler } from 'express'
import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import { guardRule, type RuleParts } from '../guard-rule.ts'
import {
  type CompiledRule,
  compileFilter,
  filterShape,
  type ShapeOf,
  safelistShape,
} from '../rules/filter-rule.ts'
import { factsOf } from '../rules/request-facts.ts'
import { tallyPass } from '../tallies.ts'

/** What matches passes. */
export const safelist = {
  type: 'safelist',
  shape: safelistShape satisfies ShapeOf<'safelist'>,
  schema: z.strictObject(safelistShape).transform(compileFilter),
} as const

/** What matches skips the rest of the chain, and the limits of its route. */
export function pass(rule: CompiledRule, parts: RuleParts): RequestHandler {
  const { tally, onMatch } = guardRule(rule, parts)
  return onMatch((state, _response, next) => {
    factsOf(state.request).isSafe = true
    tallyPass(tally)
    parts.notices.publish(rule, state)
    next('router')
  })
}

/** What matches is denied. */
export const blocklist = {
  type: 'blocklist',
  shape: filterShape satisfies ShapeOf<'blocklist'>,
  schema: z.strictObject(filterShape).transform(compileFilter),
} as const

/** Made once, so that a flood of denied requests does not create an error for each. */
export const BLOCKED = new ServiceError('blocked')

/** What matches is `blocked`. */
export function block(rule: CompiledRule, parts: RuleParts): RequestHandler {
  const { tally, onMatch, refuse } = guardRule(rule, parts)
  return onMatch((state, _response, next) => {
    tally.counted++
    refuse(state)
    next(rule.isDryRun ? undefined : BLOCKED)
  })
}
