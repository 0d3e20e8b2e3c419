import { forgetStrikes, type StrikeOptions } from './ban-checks.ts'
import { type BanControl, banRefused } from './ban-control.ts'
import type { BanList } from './ban-list.ts'
import { checkBanOrder } from './ban-orders.ts'
import type { Ban, BanStore } from './ban-store.ts'
import type { Limiter } from './limiter.ts'

/** How many counts are reset at a time, each of them with a call to the store. */
const FORGOTTEN_AT_ONCE = 1000

export interface BanControlOptions extends StrikeOptions {
  readonly banStore: BanStore
  readonly bans: BanList
  readonly limiter: Pick<Limiter, 'banRules'>
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** For a service with rules: changes the store as the commands do, and obeys the change at once. */
export function createBanControl(options: BanControlOptions): BanControl {
  const { banStore, store, notices, now, limiter, bans } = options

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
      const { ban } = checked
      await bans.saved()
      await banStore.save(ban)
      bans.obey(ban)
      notices.banChanged({ happened: 'made', ban }, 'an operator')
      await forgetStrikes(ban, options)
      return ban
    },

    lift: async selection => {
      await bans.saved()
      const lifted = await banStore.lift(selection)
      // While the bans are still in force here: a strike that is counted with those before would begin another one.
      await forgetAll(lifted)
      await bans.forget(lifted)
      for (const ban of lifted) notices.banChanged({ happened: 'lifted', ban }, 'an operator')
      return lifted.length
    },
  }
}
