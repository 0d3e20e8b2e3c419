import { isIP } from 'node:net'
import type { Logger } from 'pino'
import type { BanControl } from './ban-control.ts'
import { type BanChange, type BanListOptions, openBanList } from './ban-list.ts'
import { type BanStore, MAX_DATE_MS } from './ban-store.ts'
import { createBanControl, createOrders } from './create-ban-control.ts'
import { forgetStrikes, forgetStrikesSoon } from './forget-strikes.ts'
import { createLimiter, type Limiter, type LimiterOptions } from './limiter.ts'
import { createNotices } from './notices.ts'
import { LINES_A_SECOND, type RuleLines } from './rule-lines.ts'

export interface OpenLimiterOptions extends Omit<LimiterOptions, 'bans'> {
  readonly banStore: BanStore
  /** Repeats a read of that store while it fails for a cause that may pass. */
  readonly untilReachable: BanListOptions['untilReachable']
  readonly log: Logger
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
}

export interface OpenLimiter {
  readonly limiter: Limiter
  /** For operators. */
  readonly bans: BanControl
  /** Stops following the bans. Once this resolves, their store is no longer used. */
  close(): Promise<void>
}

/** Opens the limits of a service with the bans in force. Rejects when the bans cannot be read. */
export async function openLimiter(options: OpenLimiterOptions): Promise<OpenLimiter> {
  const { banStore, store, lines, log, now, monotonicNow } = options
  const notices = createNotices({ ...options, lines })
  const orders = createOrders()
  const bans = await openBanList({
    store: banStore,
    untilReachable: options.untilReachable,
    now,
    monotonicNow,
    onStoreFailure: err => log.error({ err }, 'cannot persist a ban'),
    onReadFailure: err => log.error({ err }, 'cannot refresh bans, keeping those already loaded'),
    onForeignChange: change => {
      if (orders.has(change)) return writeBanChange(change, 'an operator', lines)
      writeBanChange(change, 'another process', lines)
      const { happened, ban } = change
      // The client may have strikes here too.
      void (happened === 'made'
        ? forgetStrikesSoon(ban, ban.endsAt - now(), { store, notices })
        : forgetStrikes(ban, { store, notices }))
    },
  })
  const limiter = createLimiter({ ...options, bans })
  return {
    limiter,
    bans: createBanControl({ ...options, limiter, bans, orders, notices }),
    close: bans.close,
  }
}

/** Logs bans that operators, commands and other services make and lift. */
function writeBanChange({ happened, ban }: BanChange, by: string, lines: RuleLines): void {
  const { rule, clientKey, endsAt } = ban
  const throttled = { source: `bans ${happened} ${rule}`, most: LINES_A_SECOND }

  function fieldsOf() {
    // Only addresses are logged: a rule may also count by personal data such as an e-mail address.
    const [address = ''] = clientKey.split('/')
    return { type: 'ban', rule, client: isIP(address) === 0 ? undefined : clientKey }
  }

  if (happened === 'lifted') {
    lines.write({ level: 'info', message: `ban lifted by ${by}`, ...throttled }, fieldsOf)
    return
  }
  const line = { level: 'warn', message: `client banned by ${by}`, ...throttled } as const
  lines.write(line, () => {
    const banEndsAt = new Date(Math.min(endsAt, MAX_DATE_MS)).toISOString()
    return { ...fieldsOf(), banEndsAt }
  })
}
