import type { RequestHandler } from 'express'
import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import { ownCopy } from '../../platform/memoize.ts'
import { forgetStrikes } from '../counter-store.ts'
import { wholeSeconds } from '../limit-headers.ts'
import { onceAnswered } from '../once-answered.ts'
import type { MatchHandler, RuleInForce } from '../rule-in-force.ts'
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
import { BLOCKED } from './blocklist-rule.ts'

const shape = {
  maxretry: count,
  findtime: duration,
  bantime: duration,
  by: byAddress,
  /** Whether matching requests pass until the ban (`allow2ban`, the default) or each gets 403. */
  mode: z.enum(['allow2ban', 'fail2ban'], 'must be "allow2ban" or "fail2ban"').optional(),
}

export type BanRule = InputOf<FilterShape & typeof answered & typeof shape>

/** After `maxretry` matching requests a client gets 403 for `bantime`. */
export const bans = {
  type: 'ban',
  schema: z
    .strictObject({ ...filterShape, ...answered, ...shape })
    .refine(
      rule => rule.status === undefined || rule.mode !== 'fail2ban',
      misfit(
        'status',
        'cannot be given together with mode "fail2ban", which denies before the answer is known',
      ),
    )
    .transform(rule => ({
      ...compileFilter(rule),
      /** Those of the answers that count; `undefined` if a request counts before it is answered. */
      statuses: rule.status,
      by: rule.by,
      limit: rule.maxretry,
      windowMs: rule.findtime,
      banMs: rule.bantime,
      /** Whether each match is denied, not only the requests of a banned client. */
      deniesStrikes: rule.mode === 'fail2ban',
    })),
} as const

type Rule = CompiledRule & z.output<typeof bans.schema>

const BANNED = { level: 'warn', message: 'client banned' } as const

/** The two handlers of a ban rule. */
export function handleBans(inForce: RuleInForce<Rule>) {
  const { rule, tally, bans, now } = inForce
  const { keyOf, stateOf, onMatch, count, refuse, tallyPass, publish, writeLine } = inForce
  const { isDryRun, banMs, limit, statuses, deniesStrikes } = rule
  // Well-formed, because the database replaces lone surrogates.
  const name = rule.name.toWellFormed()
  const idOf = (clientKey: string) => ({ rule: name, clientKey, isDryRun })
  const endsAt = (remainingMs: number) => new Date(now() + remainingMs).toISOString()

  /** Milliseconds until the ban of a client ends; `undefined` without one. */
  const remainingMs = (key: string | undefined) =>
    key === undefined ? undefined : bans.remainingMs(idOf(key))

  /**
   * Whether a strike beyond the last one must make up for a ban that another process is making, or nobody has made: it was killed
   * at the last strike, or a reload made `maxretry` smaller. Not in a dry run, whose bans other processes never know.
   */
  const isMissing = (key: string | undefined) => !isDryRun && remainingMs(key) === undefined

  /** Bans the client of a request. False if another process was first. */
  async function begin(state: LimitState): Promise<boolean> {
    const key = ownCopy(state.key ?? '')
    const banEndsAt = endsAt(banMs)
    const isFirst = await bans.add({ ...idOf(key), forMs: banMs })
    if (isFirst) writeLine(BANNED, state, { banEndsAt })
    void forgetStrikes({ rule: rule.name, clientKey: key }, inForce, remainingMs(key))
    return isFirst
  }

  /** Reports a request of a banned client. Returns the error for it; `undefined` if the rule is in dry run. */
  function refuseBanned(state: LimitState, leftMs: number): ServiceError | undefined {
    refuse(state, { banEndsAt: endsAt(leftMs) })
    return isDryRun ? undefined : banned(leftMs)
  }

  const strike: MatchHandler = async (state, _response, next) => {
    const { key } = state
    // Let in before its ban, or in a dry run. Its ban is not prolonged.
    if (remainingMs(key) !== undefined) return next()
    const strikes = await count(state)
    // Without a key, nothing is counted.
    const hasStoreFailed = strikes === undefined && key !== undefined
    if (hasStoreFailed) return next()
    if (strikes !== undefined && strikes > limit) {
      if (isMissing(key)) await begin(state)
      // The notice of a banned client has no count.
      return next(refuseBanned(stateOf(state.request, key), remainingMs(key) ?? banMs))
    }
    const isLast = strikes === limit
    if (isLast) await begin(state)
    if (strikes !== undefined) tally.counted++
    if (deniesStrikes) {
      refuse(state, isLast ? { banEndsAt: endsAt(banMs) } : {})
      if (isDryRun) return next()
      return next(isLast ? banned(banMs) : BLOCKED)
    }
    if (isLast) publish(state)
    if (strikes !== undefined) tally.passed++
    next()
  }

  async function strikeByAnswer(state: LimitState): Promise<void> {
    if (remainingMs(state.key) !== undefined) return
    const strikes = await count(state)
    if (strikes === undefined) return
    const report = () => {
      tallyPass()
      if (strikes >= limit) publish(state)
    }
    if (strikes <= limit) report()
    if (strikes === limit) await begin(state)
    if (strikes > limit && isMissing(state.key) && (await begin(state))) report()
  }

  return {
    /** Denies all requests of a client whose ban is in force. */
    deny: ((request, _response, next) => {
      if (bans.isEmpty()) return next()
      const key = keyOf(request)
      const leftMs = remainingMs(key)
      next(leftMs === undefined ? undefined : refuseBanned(stateOf(request, key), leftMs))
    }) satisfies RequestHandler,

    /**
     * Counts what matches as a strike, and bans the client at the last one. Counts are exact, so exactly one request gets the
     * count `maxretry`. If that did not ban the client, a later request does. With `status` it counts once the request is
     * answered, and a ban begins with the next request.
     */
    strike: onMatch(
      statuses === undefined
        ? strike
        : (state, response, next) => {
            onceAnswered(response, statuses, () => void strikeByAnswer(state))
            next()
          },
    ),
  }
}

function banned(remainingMs: number): ServiceError {
  const headers = { 'Retry-After': String(wholeSeconds(remainingMs)) }
  return new ServiceError('blocked', { headers })
}
