import type { BanControl } from './ban-control.ts'
import type { BanChange, BanList } from './ban-list.ts'
import { banRefused } from './ban-mistakes.ts'
import { checkBanOrder } from './ban-orders.ts'
import type { Ban, BanStore } from './ban-store.ts'
import { forgetStrikes } from './forget-strikes.ts'
import type { GuardOptions } from './guarded-rule.ts'
import type { Limiter } from './limiter.ts'

/** The changes that operators order in this process, until it has them in its list. */
export interface Orders {
  has(change: BanChange): boolean
  /** Does the work while they are known. */
  during(changes: readonly BanChange[], work: () => Promise<void>): Promise<void>
}

export function createOrders(): Orders {
  const ordered = new Set<string>()
  const textOf = ({ happened, ban: { rule, clientKey, endsAt } }: BanChange) =>
    JSON.stringify([happened, rule, clientKey, endsAt])

  return {
    has: change => ordered.has(textOf(change)),
    during: async (changes, work) => {
      const texts = changes.map(textOf)
      for (const text of texts) ordered.add(text)
      try {
        await work()
      } finally {
        for (const text of texts) ordered.delete(text)
      }
    },
  }
}

/** How many counts are reset at a time, each of them with a call to the store. */
const FORGOTTEN_AT_ONCE = 1000

export interface BanControlOptions extends GuardOptions {
  readonly banStore: BanStore
  readonly bans: BanList
  readonly limiter: Pick<Limiter, 'banRules'>
  readonly orders: Orders
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** For a service with rules: changes the store as the commands do, and obeys the change at once. */
export function createBanControl(options: BanControlOptions): BanControl {
  const { banStore, store, now, limiter, bans, orders } = options

  function obey(happened: BanChange['happened'], changed: readonly Ban[]): Promise<void> {
    const changes = changed.map(ban => ({ happened, ban }))
    return orders.during(changes, bans.refresh)
  }

  async function forgetAll(changed: readonly Ban[]): Promise<void> {
    for (let at = 0; at < changed.length; at += FORGOTTEN_AT_ONCE) {
      const part = changed.slice(at, at + FORGOTTEN_AT_ONCE)
      await Promise.all(part.map(ban => forgetStrikes(ban, options)))
    }
  }

  return {
    list: async query => {
      await bans.saved()
      return banStore.list(query)
    },

    add: async order => {
      const isCounting = store !== undefined
      const surroundings = { bans: limiter.banRules(), isCounting, now: now() }
      const checked = checkBanOrder(order, surroundings)
      if ('mistakes' in checked) throw banRefused(checked.mistakes)
      await bans.saved()
      await banStore.save(checked.ban)
      await obey('made', [checked.ban])
      await forgetAll([checked.ban])
      return checked.ban
    },

    lift: async selection => {
      await bans.saved()
      const lifted = await banStore.lift(selection)
      // While the bans are still in force here: a strike that is counted with those before would begin another one.
      await forgetAll(lifted)
      await obey('lifted', lifted)
      return lifted.length
    },
  }
}
