import { isIP } from 'node:net'
import type { RequestHandler } from 'express'
import { hasLostAddress } from '../http/forwarded.ts'
import { createThrottledLog, type ThrottledLogOptions } from '../http/throttled-log.ts'
import type { BanKey } from './ban-store.ts'
import { ruleText } from './counter-store.ts'
import { factsOf } from './rules/request-facts.ts'

export type LimitLog = ReturnType<typeof createLimitLog>

/** The log lines of the limits. Each rule writes only some of them a second: see `createThrottledLog`. */
export function createLimitLog(options: ThrottledLogOptions) {
  const write = createThrottledLog(options)
  let isAddressMissed = false

  return {
    /** Writes a line about what a rule does. */
    write,

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
      const source = ruleText({ type: 'ban', name: rule })
      write({ level, message, source }, { requestId, type: 'ban', rule, client, banEndsAt })
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
        write({ level: 'warn', message, source: 'addresses' }, { setting: 'TRUST_PROXY' })
      }
      next()
    }) satisfies RequestHandler,
  }
}
