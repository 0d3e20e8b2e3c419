import { banRefused, NO_LIMITS_FILE } from './ban-mistakes.ts'
import type { BanOrder } from './ban-orders.ts'
import type { Ban, BanPage, BanQuery, BanSelection, BanStore } from './ban-store.ts'

/** What operators do with the bans of a running service. */
export interface BanControl {
  /** Also those that this process has just made. */
  list(query: BanQuery): Promise<BanPage>
  /** Bans a client. Once this resolves, this process obeys the ban. Throws `validation_failed`. */
  add(order: BanOrder): Promise<Ban>
  /** Lifts bans. Once this resolves, this process has forgotten them and their strikes. Returns how many were in force. */
  lift(selection: BanSelection): Promise<number>
}

/** For a service without rules, which bans nobody. */
export function createControlWithoutRules(store: BanStore): BanControl {
  return {
    list: store.list,
    add: async () => {
      throw banRefused([NO_LIMITS_FILE])
    },
    lift: async selection => (await store.lift(selection)).length,
  }
}
