import type { RequestHandler } from 'express'
import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import { forgetStrikes } from '../forget-strikes.ts'
import { guardRule, type RuleParts } from '../guard-rule.ts'
import { wholeSeconds } from '../limit-headers.ts'
import { noticeOf } from '../notices.ts'
import { onceAnswered } from '../once-answered.ts'
import {
  answeredShape,
  byAddress,
  type CompiledRule,
  compileFilter,
  type ShapeOf,
  whenObject,
} from '../rules/filter-rule.ts'
import { ownCopy } from '../rules/memoize.ts'
import type { LimitState } from '../rules/request-facts.ts'
import { count, duration } from '../rules/rule-values.ts'
import { tallyPass } from '../tallies.ts'
import { BLOCKED } from './match-rules.ts'

const shape = {
  ...answeredShape,
  maxretry: count,
  findtime: duration,
  bantime: duration,
  by: byAddress,
  mode: z.enum(['allow2ban', 'fail2ban'], 'must be "allow2ban" or "fail2ban"').default('allow2ban'),
} satisfies ShapeOf<'bans'>

/** A client with too many matches is denied for some time. */
export const bans = {
  type: 'ban',
  shape,
  schema: z
    .strictObject(shape)
    .refine(rule => rule.status === undefined || rule.mode !== 'fail2ban', {
      path: ['status'],
      error:
        'cannot be given together with mode "fail2ban", which denies before the answer is known',
      when: whenObject,
    })
    .transform(rule => ({
      ...compileFilter(rule),
      /** Those of the answers that count; `undefined` if a request counts before it is answered. */
      statuses: rule.status,
      keyOf: rule.by,
      limit: rule.maxretry,
      windowMs: rule.findtime,
      banMs: rule.bantime,
      /** Whether each match is denied, not only the requests of a banned client. */
      deniesStrikes: rule.mode === 'fail2ban',
    })),
} as const

type Rule = CompiledRule & z.output<typeof bans.schema>

/** A handler of a ban rule: denies all requests of a client whose ban is in force. */
export function denyBanned(rule: Rule, parts: RuleParts): RequestHandler {
  const { keyOf, stateOf, remainingMs, refuseBanned } = openBan(rule, parts)
  return (request, _response, next) => {
    if (parts.bans.isEmpty()) return next()
    const key = keyOf(request)
    const leftMs = remainingMs(key)
    next(leftMs === undefined ? undefined : refuseBanned(stateOf(request, key), leftMs))
  }
}

/**
 * The other handler of a ban rule: counts what matches as a strike, and bans the client at the last one. Counts are exact, so
 * exactly one request gets the count `maxretry`. If that did not ban the client, a later request does.
 */
export function countStrike(rule: Rule, parts: RuleParts): RequestHandler {
  const { limit, banMs, isDryRun, deniesStrikes } = rule
  const { tally, stateOf, onMatch, count, refuse, ...ban } = openBan(rule, parts)
  return onMatch(async (state, _response, next) => {
    const { key } = state
    // Let in before its ban, or in a dry run. Its ban is not prolonged.
    if (ban.remainingMs(key) !== undefined) return next()
    const strikes = await count(state)
    // Without a key, nothing is counted.
    const hasStoreFailed = strikes === undefined && key !== undefined
    if (hasStoreFailed) return next()
    if (strikes !== undefined && strikes > limit) {
      if (ban.isMissing(key)) await ban.begin(state)
      // The notice of a banned client has no count.
      return next(ban.refuseBanned(stateOf(state.request, key), ban.remainingMs(key) ?? banMs))
    }
    const isLast = strikes === limit
    if (isLast) await ban.begin(state)
    if (strikes !== undefined) tally.counted++
    if (deniesStrikes) {
      refuse(state, isLast ? { banEndsAt: ban.endsAt(banMs) } : {})
      if (isDryRun) return next()
      return next(isLast ? banned(banMs) : BLOCKED)
    }
    if (isLast) parts.notices.publish(noticeOf(rule, state))
    if (strikes !== undefined) tally.passed++
    next()
  })
}

/** For a rule with `status`: counts what matches once it is answered. A ban begins with the next request. */
export function countStrikeByAnswer(rule: Rule, parts: RuleParts): RequestHandler {
  const { limit, statuses = new Set() } = rule
  const { tally, onMatch, count, ...ban } = openBan(rule, parts)

  async function strike(state: LimitState): Promise<void> {
    if (ban.remainingMs(state.key) !== undefined) return
    const strikes = await count(state)
    if (strikes === undefined) return
    const isBeyond = strikes > limit
    if (isBeyond && !ban.isMissing(state.key)) return
    const report = () => {
      tallyPass(tally)
      if (strikes >= limit) parts.notices.publish(noticeOf(rule, state))
    }
    if (!isBeyond) report()
    if (strikes < limit) return
    const isFirst = await ban.begin(state)
    if (isBeyond && isFirst) report()
  }

  return onMatch((state, response, next) => {
    onceAnswered(response, statuses, () => void strike(state))
    next()
  })
}

/** What the handlers of a rule do with its bans. */
function openBan(rule: Rule, parts: RuleParts) {
  const { bans, notices, now } = parts
  const { isDryRun, banMs } = rule
  const guarded = guardRule(rule, parts)
  // Well-formed, because the database replaces lone surrogates.
  const name = rule.name.toWellFormed()
  const idOf = (clientKey: string) => ({ rule: name, clientKey, isDryRun })
  const endsAt = (remainingMs: number) => new Date(now() + remainingMs).toISOString()
  const remainingMs = (key: string | undefined) =>
    key === undefined ? undefined : bans.remainingMs(idOf(key))

  return {
    ...guarded,
    endsAt,
    /** Milliseconds until the ban of a client ends; `undefined` without one. */
    remainingMs,

    /**
     * Whether a strike beyond the last one must make up for a ban that another process is making, or nobody has made: it was killed
     * at the last strike, or a reload made `maxretry` smaller. Not in a dry run, whose bans other processes never know.
     */
    isMissing: (key: string | undefined) => !isDryRun && remainingMs(key) === undefined,

    /** Bans the client of a request. False if another process was first. */
    begin: async (state: LimitState): Promise<boolean> => {
      const key = ownCopy(state.key ?? '')
      const banEndsAt = endsAt(banMs)
      const isFirst = await bans.add({ ...idOf(key), forMs: banMs })
      if (isFirst) notices.writeLine('warn', noticeOf(rule, state), 'client banned', { banEndsAt })
      const ban = { rule: rule.name, clientKey: key }
      void forgetStrikes(ban, parts, remainingMs(key))
      return isFirst
    },

    /** Reports a request of a banned client. Returns the error for it; `undefined` if the rule is in dry run. */
    refuseBanned: (state: LimitState, remainingMs: number) => {
      guarded.refuse(state, { banEndsAt: endsAt(remainingMs) })
      return isDryRun ? undefined : banned(remainingMs)
    },
  }
}

function banned(remainingMs: number): ServiceError {
  const headers = { 'Retry-After': String(wholeSeconds(remainingMs)) }
  return new ServiceError('blocked', { headers })
}
