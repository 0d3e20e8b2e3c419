import type { RequestHandler } from 'express'
import { z } from 'zod'
import { guardRule, type RuleParts } from '../guard-rule.ts'
import { onceAnswered } from '../once-answered.ts'
import {
  answeredShape,
  byAddress,
  type CompiledRule,
  compileFilter,
  misfit,
  type ShapeOf,
} from '../rules/filter-rule.ts'
import type { LimitState } from '../rules/request-facts.ts'
import { count, duration } from '../rules/rule-values.ts'
import { tallyPass } from '../tallies.ts'

const shape = {
  ...answeredShape,
  limit: count.optional(),
  period: duration.optional(),
  by: byAddress,
} satisfies ShapeOf<'track'>

/** What matches passes and is reported. */
export const track = {
  type: 'track',
  shape,
  schema: z
    .strictObject(shape)
    .refine(
      rule => rule.limit === undefined || rule.period !== undefined,
      misfit('period', 'must be given with limit'),
    )
    .refine(
      rule => rule.period === undefined || rule.limit !== undefined,
      misfit('limit', 'must be given with period'),
    )
    .transform(rule => {
      const { limit, period: windowMs, by: keyOf, status } = rule
      const checked = { ...compileFilter(rule), statuses: status }
      if (limit === undefined || windowMs === undefined) return checked
      return { ...checked, keyOf, limit, windowMs }
    }),
} as const

type Rule = CompiledRule & z.output<typeof track.schema>

const TRACKED = { level: 'info', message: 'request tracked' } as const

/** The handler of a track: reports what matches, with a limit only what is over it. */
export function report(rule: Rule, parts: RuleParts): RequestHandler {
  const { notices } = parts
  const { statuses } = rule
  const { tally, onMatch, count } = guardRule(rule, parts)

  async function tell(state: LimitState): Promise<void> {
    // Without a limit every match is reported, as if it were the first over a limit of 0.
    const counted = 'limit' in rule ? await count(state) : 1
    if (counted === undefined) return
    tallyPass(tally)
    if (counted <= state.limit) return
    notices.publish(rule, state)
    if (counted === state.limit + 1) notices.writeLine(TRACKED, rule, state)
  }

  return onMatch(async (state, response, next) => {
    if (statuses === undefined) await tell(state)
    else onceAnswered(response, statuses, () => void tell(state))
    next()
  })
}
