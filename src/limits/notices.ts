import { channel } from 'node:diagnostics_channel'
import { isIP } from 'node:net'
import type { Request, RequestHandler } from 'express'
import { hasLostAddress } from '../http/forwarded.ts'
import { logText } from '../http/request-log.ts'
import { createThrottledLog, type ThrottledLogOptions } from '../http/throttled-log.ts'
import type { BanKey } from './ban-store.ts'
import { type NamedRule, type RuleType, ruleText } from './rules/filter-rule.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'

/** A decision of a rule about a request, as it is published. */
export interface Notice {
  readonly type: RuleType
  readonly rule: string
  readonly request: Request
  /** What the request was counted by. */
  readonly key?: string | undefined
  readonly count?: number | undefined
  readonly limit?: number | undefined
  /** Milliseconds. */
  readonly period?: number | undefined
  /** Whether the rule only reports what it would have done. */
  readonly dryRun?: true
}

type DecidingRule = NamedRule & { readonly limit?: unknown }

/** The name of the channel of `node:diagnostics_channel` on which notices are published. */
export const CHANNEL_NAME = 'user-records.limits'

export type Notices = ReturnType<typeof createNotices>

export function createNotices(options: ThrottledLogOptions) {
  const write = createThrottledLog(options)
  const published = channel(CHANNEL_NAME)
  let isAddressMissed = false

  return {
    /** Publishes a decision on the channel. */
    publish: (rule: DecidingRule, state: LimitState): void => {
      if (published.hasSubscribers) published.publish(noticeOf(rule, state))
    },

    /** Adds type and rule to the request's own log line. */
    mark: ({ type, name, isDryRun }: NamedRule, request: Request, more?: object): void => {
      request.line = { ...request.line, type, rule: name, dryRun: isDryRun || undefined, ...more }
    },

    /** Writes a log line about a decision, unless the rule has written too many within the last second. */
    writeLine: (
      { level, message }: { level: 'warn' | 'info'; message: string },
      ruled: DecidingRule,
      state: LimitState,
      more?: object,
    ): void => {
      const { type, rule, dryRun, limit, period, request } = noticeOf(ruled, state)
      const client = logText(factsOf(request).ip)
      const fields = { requestId: request.id, type, rule, dryRun, limit, period, client, ...more }
      write({ level, message, source: ruleText(type, rule) }, fields)
    },

    /** Logs that an operator has made a ban or lifted it, by the request of this id. */
    banChanged: (
      change: 'made' | 'lifted',
      { rule, clientKey, banEndsAt }: BanKey & { banEndsAt?: string },
      requestId?: string,
    ): void => {
      const isMade = change === 'made'
      const level = isMade ? 'warn' : 'info'
      const message = `${isMade ? 'client banned' : 'ban lifted'} by an operator`
      // Only addresses are logged: a rule may also count by personal data such as an e-mail address.
      const [address = ''] = clientKey.split('/')
      const client = isIP(address) === 0 ? undefined : clientKey
      const fields = { requestId, type: 'ban', rule, client, banEndsAt }
      write({ level, message, source: ruleText('ban', rule) }, fields)
    },

    /** Logs that a function of a rule threw; the request passes. */
    functionFailed: ({ type, name }: NamedRule, err: unknown): void => {
      const message = 'rule function failed, request allowed'
      const source = ruleText(type, name)
      write({ level: 'error', message, source }, { type, rule: name, err })
    },

    /** Logs that a ban could not be saved yet; it is in force here. */
    savingFailed: (err: unknown): void => {
      write({ level: 'error', message: 'cannot persist a ban', source: 'bans' }, { err })
    },

    /** Logs that the store could not count; the request passes. */
    storeFailed: (err: unknown): void => {
      const message = 'counter store failed, requests allowed'
      write({ level: 'error', message, source: 'store', most: 1 }, { err })
    },

    /** A handler that logs, once, that a client has no address, as on a Unix socket: rules by it do not count its requests. */
    reportMissingAddress: ((request, _response, next) => {
      const { ip } = factsOf(request)
      if (ip === undefined && !isAddressMissed && !hasLostAddress(request.socket)) {
        isAddressMissed = true
        const message =
          'a client has no address, so rules by ip do not count: set TRUST_PROXY if a proxy connects by a Unix socket'
        const line = { level: 'warn', message, source: 'addresses' } as const
        write(line, { setting: 'TRUST_PROXY' })
      }
      next()
    }) satisfies RequestHandler,
  }
}

/** The notice of a rule's decision. It has key, count, limit and period only if the rule can count. */
function noticeOf(
  { type, name, isDryRun, limit: own }: DecidingRule,
  { request, key, count, limit, windowMs: period }: LimitState,
): Notice {
  const counted = own !== undefined && { key, count, limit, period }
  return { type, rule: name, request, ...counted, ...(isDryRun && { dryRun: true }) }
}
