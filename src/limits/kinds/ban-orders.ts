import { durationMs } from '../../config/values.ts'
import {
  type BanControl,
  type BanMistake,
  type BanOrder,
  banRefused,
  NO_LIMITS_FILE,
} from '../ban-control.ts'
import type { BanList } from '../ban-list.ts'
import { type Ban, type BanStore, endOf } from '../ban-store.ts'
import { forgetStrikes, type StrikeOptions } from '../counter-store.ts'
import type { LimitLog } from '../limit-log.ts'
import type { CompiledBan } from './kinds.ts'
import type { Limiter } from './limiter.ts'

/**
 * The ban that an order asks for, without its end and as the store keeps it: well-formed text, and whole milliseconds. Or all
 * mistakes in the order. `bans` are the rules in force, `undefined` without LIMITS_FILE. `isCounting` is false with
 * CACHE_STORE=none, where bans have no effect.
 */
export function checkBanOrder(
  order: BanOrder,
  bans: readonly CompiledBan[] | undefined,
  isCounting: boolean,
): { readonly ban: Omit<Ban, 'endsAt'> } | { readonly mistakes: readonly BanMistake[] } {
  const mistakes: BanMistake[] = []
  const refuse = (field: BanMistake['field'], message: string): undefined =>
    void mistakes.push({ field, message })

  function findText(field: 'rule' | 'client'): string | undefined {
    const value = order[field] ?? ''
    if (value === '') return refuse(field, "can't be blank")
    return typeof value === 'string' ? value : refuse(field, 'must be a string')
  }

  function findRule(): CompiledBan | undefined {
    if (bans === undefined) return refuse('rule', NO_LIMITS_FILE.message)
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
  if (rule && name && clientKey === undefined) refuse('client', needOf(rule))
  const lastsMs = order.for == null ? rule?.banMs : durationMs(order.for)
  if (order.for != null && lastsMs === undefined) {
    refuse('for', 'must be a time such as "1 hour", more than 0 and at most a year')
  }
  if (rule === undefined || clientKey === undefined || lastsMs === undefined || mistakes.length > 0)
    return { mistakes }
  return { ban: { rule: rule.name.toWellFormed(), clientKey, lastsMs: Math.ceil(lastsMs) } }
}

function needOf({ by: { names } }: CompiledBan): string {
  const need = names.length > 1 ? 'a JSON list, as a text, with a text for each of ' : ''
  return `must be what the rule counts by: ${need}${names.join(' and ')}`
}

/** How many counts are reset at a time, each of them with a call to the store. */
const FORGOTTEN_AT_ONCE = 1000

export interface BanControlOptions extends StrikeOptions {
  readonly log: LimitLog
  /** Milliseconds since the epoch. */
  readonly wallNow: () => number
  readonly banStore: BanStore
  readonly bans: BanList
  readonly limiter: Pick<Limiter, 'banRules'>
}

/** For a service with rules: changes the store as the commands do, and obeys the change at once. */
export function createBanControl(options: BanControlOptions): BanControl {
  const { banStore, store, log, limiter, bans, wallNow } = options

  const moment = () => ({ now: bans.now(), wallNow: wallNow() })

  return {
    moment: async () => moment(),

    list: async query => {
      await bans.saved()
      return banStore.list(query)
    },

    add: async (order, requestId) => {
      const checked = checkBanOrder(order, limiter.banRules(), store !== undefined)
      if ('mistakes' in checked) throw banRefused(checked.mistakes)
      const ban = { ...checked.ban, endsAt: Math.ceil(bans.now() + checked.ban.lastsMs) }
      await bans.saved()
      await banStore.save(ban)
      bans.obey(ban)
      log.banChanged('made', { ...ban, banEndsAt: endOf(ban, moment()) }, requestId)
      await forgetStrikes(ban, options)
      return ban
    },

    lift: async (selection, requestId) => {
      await bans.saved()
      const lifted = await banStore.lift(selection)
      // While the bans are still in force here: a strike that is counted with those before would begin another one.
      for (let at = 0; at < lifted.length; at += FORGOTTEN_AT_ONCE) {
        const part = lifted.slice(at, at + FORGOTTEN_AT_ONCE)
        await Promise.all(part.map(ban => forgetStrikes(ban, options)))
      }
      await bans.forget(lifted)
      for (const ban of lifted) log.banChanged('lifted', ban, requestId)
      return lifted.length
    },
  }
}
