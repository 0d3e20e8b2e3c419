import type { RequestHandler } from 'express'
import { z } from 'zod'
import type { RuleInForce } from '../rule-in-force.ts'
import { compileFilter, type InputOf, named } from '../rules/compiled-rule.ts'
import { matchShape } from '../rules/matchers.ts'
import { factsOf } from '../rules/request-facts.ts'

export type SafelistRule = InputOf<typeof named & typeof matchShape>

/** Matching requests pass, and no other rule applies to them. */
export const safelist = {
  type: 'safelist',
  schema: z.strictObject({ ...named, ...matchShape }).transform(compileFilter),
} as const

/** What matches skips the rest of the chain, and the limits of its route. */
export function pass({ onMatch, tallyPass, publish }: RuleInForce): RequestHandler {
  return onMatch((state, _response, next) => {
    factsOf(state.request).isSafe = true
    tallyPass()
    publish(state)
    next('router')
  })
}
