import type { RequestHandler } from 'express'
import { z } from 'zod'
import { onceAnswered } from '../once-answered.ts'
import type { RuleInForce } from '../rule-in-force.ts'
import {
  answered,
  byAddress,
  type CompiledRule,
  compileFilter,
  type FilterShape,
  filterShape,
  type InputOf,
  misfit,
} from '../rules/compiled-rule.ts'
import type { LimitState } from '../rules/request-facts.ts'
import { count, duration } from '../rules/rule-values.ts'

const shape = {
  limit: count.optional(),
  period: duration.optional(),
  by: byAddress,
}

export type TrackRule = InputOf<FilterShape & typeof answered & typeof shape>

/** Matching requests pass and are reported. */
export const track = {
  type: 'track',
  schema: z
    .strictObject({ ...filterShape, ...answered, ...shape })
    .refine(
      rule => rule.limit === undefined || rule.period !== undefined,
      misfit('period', 'must be given with limit'),
    )
    .refine(
      rule => rule.period === undefined || rule.limit !== undefined,
      misfit('limit', 'must be given with period'),
    )
    .transform(rule => {
      const { limit, period: windowMs, by, status } = rule
      const checked = { ...compileFilter(rule), statuses: status }
      if (limit === undefined || windowMs === undefined) return checked
      return { ...checked, by, limit, windowMs }
    }),
} as const

type Rule = CompiledRule & z.output<typeof track.schema>

const TRACKED = { level: 'info', message: 'request tracked' } as const

/** The handler of a track: reports what matches, with a limit only what is over it. */
export function report(inForce: RuleInForce<Rule>): RequestHandler {
  const { rule, onMatch, count, tallyPass, publish, writeLine } = inForce
  const { statuses } = rule

  async function tell(state: LimitState): Promise<void> {
    // Without a limit every match is reported, as if it were the first over a limit of 0.
    const counted = 'limit' in rule ? await count(state) : 1
    if (counted === undefined) return
    tallyPass()
    if (counted <= state.limit) return
    publish(state)
    if (counted === state.limit + 1) writeLine(TRACKED, state)
  }

  return onMatch(async (state, response, next) => {
    if (statuses === undefined) await tell(state)
    else onceAnswered(response, statuses, () => void tell(state))
    next()
  })
}
