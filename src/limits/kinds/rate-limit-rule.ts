import { z } from 'zod'
import { ACTIONS } from '../../http/actions.ts'
import { compileFilter, dryRun, type InputOf, misfit, named } from '../rules/compiled-rule.ts'
import { actions, answer, countOrFunction, durationOrFunction, key } from '../rules/rule-values.ts'

const shape = {
  to: countOrFunction,
  within: durationOrFunction,
  only: actions.optional(),
  except: actions.optional(),
  by: key({ withBody: true }).prefault('ip'),
  with: answer.optional(),
}

export type RateLimitRule = InputOf<typeof named & typeof shape & typeof dryRun>

/** A limit on the routes of its actions. Its handlers are those of `limitRequests` and `limitMany`. */
export const rateLimits = {
  type: 'rateLimit',
  schema: z
    .strictObject({ ...named, ...shape, ...dryRun })
    .refine(
      rule => rule.only === undefined || rule.except === undefined,
      misfit('except', 'cannot be given together with only'),
    )
    .transform(({ only = ACTIONS, except = [], ...rule }) => ({
      ...compileFilter({ dryRun: rule.dryRun }),
      actions: only.filter(action => !except.includes(action)),
      by: rule.by,
      limit: rule.to,
      windowMs: rule.within,
      answer: rule.with,
    })),
} as const
