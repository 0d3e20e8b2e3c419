import { ServiceError } from '../errors.ts'
import type { Ban, BanPage, BanQuery, BanSelection, BanStore, Moment } from './ban-store.ts'

/** What operators do with the bans of a running service. */
export interface BanControl {
  /** Now, by the clock of the bans and by the wall clock. */
  moment(): Promise<Moment>
  /** Also those that this process has just made. */
  list(query: BanQuery): Promise<BanPage>
  /**
   * Bans a client. Once this resolves, this process obeys the ban. The log line has the id of the request, as that of `lift`.
   * Throws `validation_failed`.
   */
  add(order: BanOrder, requestId?: string): Promise<Ban>
  /** Lifts bans. Once this resolves, this process has forgotten them and their strikes. Returns how many were in force. */
  lift(selection: BanSelection, requestId?: string): Promise<number>
}

/** An operator's order to ban a client as if it had broken a rule. Nothing in it has been checked. */
export interface BanOrder {
  /** The name of a ban rule. */
  readonly rule?: unknown
  /** The client as the rule counts it, such as its address; a JSON list in a text for several keys. */
  readonly client?: unknown
  /** A time as in rules; the bantime of the rule if left out. */
  readonly for?: unknown
}

/** Why such an order is refused. */
export interface BanMistake {
  readonly field: keyof BanOrder
  /** What is wrong, as in `must be a string`. */
  readonly message: string
}

/** Without the rules of a file no client is banned. */
export const NO_LIMITS_FILE: BanMistake = {
  field: 'rule',
  message: 'is unknown: LIMITS_FILE is not set, and without its rules no client is banned',
}

/** For a service without rules, which bans nobody. `wallNow` is in milliseconds since the epoch. */
export function createControlWithoutRules(store: BanStore, wallNow: () => number): BanControl {
  return {
    moment: async () => ({ now: await store.now(), wallNow: wallNow() }),
    list: store.list,
    add: async () => {
      throw banRefused([NO_LIMITS_FILE])
    },
    lift: async selection => (await store.lift(selection)).length,
  }
}

/** The error for the management port. */
export function banRefused(mistakes: readonly BanMistake[]): ServiceError {
  const errors = mistakes.map(({ field, message }) => {
    return { field, at: { pointer: `/ban/${field}` }, messages: [message] }
  })
  return new ServiceError('validation_failed', { errors })
}
