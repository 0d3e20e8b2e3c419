import { isIP } from 'node:net'
import type { Logger } from 'pino'
import { type BanChange, type BanList, openBanList } from './ban-list.ts'
import { type BanStore, MAX_DATE_MS } from './ban-store.ts'
import { forgetStrikes } from './forget-strikes.ts'
import { createLimiter, type Limiter, type LimiterOptions } from './limiter.ts'
import { createLineThrottle, createNotices, LINES_A_SECOND } from './notices.ts'

export interface OpenLimiterOptions extends Omit<LimiterOptions, 'bans'> {
  readonly banStore: BanStore
}

/** Opens the limits of a service with the bans in force. Rejects when the bans cannot be read. */
export async function openLimiter(
  options: OpenLimiterOptions,
): Promise<{ readonly limiter: Limiter; readonly bans: BanList }> {
  const { banStore, store, log, now, monotonicNow } = options
  const notices = createNotices(options)
  const logBanChange = createBanChangeLog(log, monotonicNow)
  const bans = await openBanList({
    store: banStore,
    now,
    monotonicNow,
    onStoreFailure: err => log.error({ err }, 'cannot persist a ban'),
    onReadFailure: err => log.error({ err }, 'cannot refresh bans, keeping those already loaded'),
    onForeignChange: change => {
      logBanChange(change)
      // This process may have counted strikes of the client too.
      void forgetStrikes(change.ban, { store, notices })
    },
  })
  return { limiter: createLimiter({ ...options, bans }), bans }
}

/** Logs bans that commands and other services make and lift: at most `LINES_A_SECOND` for each rule. */
function createBanChangeLog(log: Logger, monotonicNow: () => number) {
  const limitLines = createLineThrottle(monotonicNow)
  return ({ happened, ban }: BanChange): void => {
    const { rule, clientKey, endsAt } = ban
    // Only addresses are logged: a rule may also count by personal data such as an e-mail address.
    const [address = ''] = clientKey.split('/')
    const client = isIP(address) === 0 ? undefined : clientKey
    limitLines(`${happened} ${rule}`, LINES_A_SECOND, leftOut => {
      const line = { type: 'ban', rule, client, leftOut }
      const banEndsAt = new Date(Math.min(endsAt, MAX_DATE_MS)).toISOString()
      if (happened === 'lifted') log.info(line, 'ban lifted by another process')
      else log.warn({ ...line, banEndsAt }, 'client banned by another process')
    })
  }
}
