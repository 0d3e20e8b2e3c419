import { durationMs } from '../../config/values.ts'
import { ServiceError } from '../../errors.ts'
import type { BanList } from '../ban-list.ts'
import {
  type Ban,
  type BanPage,
  type BanQuery,
  type BanSelection,
  type BanStore,
  endOf,
  type Moment,
} from '../ban-store.ts'
import { forgetStrikes, type StrikeOptions } from '../counter-store.ts'
import type { LimitLog } from '../limit-log.ts'
import type { Compiled } from './kinds.ts'
import type { Limiter } from './limiter.ts'

/** What operators do with the bans of a running service. */
export type BanControl = ReturnType<typeof createBanControl>

export interface BanControlOptions {
  readonly banStore: BanStore
  /** Milliseconds since the epoch. */
  readonly wallNow: () => number
  /** The limits in force; without any, no client can be banned. */
  readonly limits?: StrikeOptions & {
    readonly log: LimitLog
    readonly bans: BanList
    readonly limiter: Pick<Limiter, 'banRules'>
  }
}

/** How many counts are reset at a time, each of them with a call to the store. */
const FORGOTTEN_AT_ONCE = 1000

/** Changes the store as the commands do. This process obeys the change at once. */
export function createBanControl({ banStore, wallNow, limits }: BanControlOptions) {
  /** Now, by the clock of the bans and by the wall clock. */
  const moment = async (): Promise<Moment> => ({
    now: limits?.bans.now() ?? (await banStore.now()),
    wallNow: wallNow(),
  })

  return {
    moment,

    /** Also those that this process has just made. */
    list: async (query: BanQuery): Promise<BanPage> => {
      await limits?.bans.saved()
      return banStore.list(query)
    },

    /**
     * Bans a client. Once this resolves, this process obeys the ban. The log line has the id of the request, as that of `lift`.
     * Throws `validation_failed`.
     */
    add: async (order: BanOrder, requestId?: string): Promise<Ban> => {
      const isCounting = limits?.store !== undefined
      const checked = checkBanOrder(order, limits?.limiter.banRules(), isCounting)
      if ('mistakes' in checked) throw orderRefused(checked.mistakes)
      const { now } = await moment()
      const ban = { ...checked.ban, endsAt: Math.ceil(now + checked.ban.lastsMs) }
      await limits?.bans.saved()
      await banStore.save(ban)
      limits?.bans.obey(ban)
      const banEndsAt = endOf(ban, await moment())
      limits?.log.banChanged('made', { ...ban, banEndsAt }, requestId)
      if (limits) await forgetStrikes(ban, limits)
      return ban
    },

    /** Lifts bans. Once this resolves, this process has forgotten them and their strikes. Returns how many were in force. */
    lift: async (selection: BanSelection, requestId?: string): Promise<number> => {
      await limits?.bans.saved()
      const lifted = await banStore.lift(selection)
      if (limits === undefined) return lifted.length
      // While the bans are still in force here: a strike that is counted with those before would begin another one.
      for (let at = 0; at < lifted.length; at += FORGOTTEN_AT_ONCE) {
        const part = lifted.slice(at, at + FORGOTTEN_AT_ONCE)
        await Promise.all(part.map(ban => forgetStrikes(ban, limits)))
      }
      await limits.bans.forget(lifted)
      for (const ban of lifted) limits.log.banChanged('lifted', ban, requestId)
      return lifted.length
    },
  }
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

/** Why such an order is refused, as in `must be a string`. */
interface BanMistake {
  readonly field: keyof BanOrder
  readonly message: string
}

/**
 * The ban that an order asks for, without its end and as the store keeps it: well-formed text, and whole milliseconds. Or all
 * mistakes in the order. `bans` are the rules in force, `undefined` without LIMITS_FILE. `isCounting` is false with
 * CACHE_STORE=none, where bans have no effect.
 */
export function checkBanOrder(
  order: BanOrder,
  bans: readonly Compiled<'bans'>[] | undefined,
  isCounting: boolean,
): { readonly ban: Omit<Ban, 'endsAt'> } | { readonly mistakes: readonly BanMistake[] } {
  const mistakes: BanMistake[] = []
  const refuse = (field: keyof BanOrder, message: string): undefined =>
    void mistakes.push({ field, message })

  function findText(field: 'rule' | 'client'): string | undefined {
    const value = order[field] ?? ''
    if (value === '') return refuse(field, "can't be blank")
    return typeof value === 'string' ? value : refuse(field, 'must be a string')
  }

  function findRule(): Compiled<'bans'> | undefined {
    if (bans === undefined) {
      return refuse(
        'rule',
        'is unknown: LIMITS_FILE is not set, and without its rules no client is banned',
      )
    }
    const name = findText('rule')
    if (name === undefined) return undefined
    const rule = bans.find(each => each.name === name)
    if (rule === undefined) {
      const names = bans.map(each => JSON.stringify(each.name)).join(', ') || 'none'
      return refuse('rule', `must be a ban rule of the limits: ${names}`)
    }
    if (rule.isDryRun) return refuse('rule', 'is in dry run and bans no client')
    return isCounting ? rule : refuse('rule', 'has no effect, because CACHE_STORE is "none"')
  }

  const rule = findRule()
  const name = findText('client')
  const clientKey = rule && name && rule.by.named(name)
  if (rule && name && clientKey === undefined) {
    const { names } = rule.by
    const need = names.length > 1 ? 'a JSON list, as a text, with a text for each of ' : ''
    refuse('client', `must be what the rule counts by: ${need}${names.join(' and ')}`)
  }
  const lastsMs = order.for == null ? rule?.banMs : durationMs(order.for)
  if (order.for != null && lastsMs === undefined) {
    refuse('for', 'must be a time such as "1 hour", more than 0 and at most a year')
  }
  if (rule === undefined || clientKey === undefined || lastsMs === undefined || mistakes.length > 0)
    return { mistakes }
  return { ban: { rule: rule.name, clientKey, lastsMs: Math.ceil(lastsMs) } }
}

function orderRefused(mistakes: readonly BanMistake[]): ServiceError {
  const errors = mistakes.map(({ field, message }) => {
    return { field, at: { pointer: `/ban/${field}` }, messages: [message] }
  })
  return new ServiceError('validation_failed', { errors })
}
