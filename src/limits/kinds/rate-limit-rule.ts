import { z } from 'zod'
import { ACTIONS } from '../../http/actions.ts'
import { compileFilter, type ShapeOf, whenObject } from '../rules/filter-rule.ts'
import {
  actions,
  answer,
  countOrFunction,
  durationOrFunction,
  flag,
  key,
  ruleName,
} from '../rules/rule-values.ts'

const shape = {
  name: ruleName,
  to: countOrFunction,
  within: durationOrFunction,
  only: actions.optional(),
  except: actions.optional(),
  by: key({ withBody: true }).prefault('ip'),
  with: answer.optional(),
  dryRun: flag.default(false),
} satisfies ShapeOf<'rateLimits'>

/** What is over the limit is denied, on the routes of its actions. Its handlers are those of `limitRequests`. */
export const rateLimits = {
  type: 'rateLimit',
  shape,
  schema: z
    .strictObject(shape)
    .refine(rule => rule.only === undefined || rule.except === undefined, {
      path: ['except'],
      error: 'cannot be given together with only',
      when: whenObject,
    })
    .transform(rule => {
      const { name, dryRun, only = ACTIONS, except = [] } = rule
      return {
        ...compileFilter({ name, dryRun }),
        actions: only.filter(action => !except.includes(action)),
        keyOf: rule.by,
        limit: rule.to,
        windowMs: rule.within,
        answer: rule.with,
      }
    }),
} as const
