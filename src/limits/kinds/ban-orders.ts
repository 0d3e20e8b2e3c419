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
import type { Notices } from '../notices.ts'
import { namedKey } from '../rules/client-key.ts'
import { keyInWords } from './describe-rules.ts'
import type { CompiledBan } from './kinds.ts'
import type { Limiter } from './limiter.ts'

/** What decides whether an order can be carried out. */
export interface BanSurroundings {
  /** The ban rules in force; `undefined` without LIMITS_FILE. */
  readonly bans: readonly CompiledBan[] | undefined
  /** False with CACHE_STORE=none: bans then have no effect. */
  readonly isCounting: boolean
}

/** The ban that an order asks for, without its end, or all mistakes in the order. */
type CheckedBan =
  | { readonly ban: Omit<Ban, 'endsAt'> }
  | { readonly mistakes: readonly BanMistake[] }

/** The result is as the store keeps it: well-formed text, and whole milliseconds. */
export function checkBanOrder(order: BanOrder, { bans, isCounting }: BanSurroundings): CheckedBan {
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
  const clientKey = rule && name && namedKey(rule.source.by, name)
  if (rule && name && clientKey === undefined) refuse('client', needOf(rule))
  const lastsMs = order.for == null ? rule?.banMs : durationMs(order.for)
  if (order.for != null && lastsMs === undefined) {
    refuse('for', 'must be a time such as "1 hour", more than 0 and at most a year')
  }
  if (rule === undefined || clientKey === undefined || lastsMs === undefined || mistakes.length > 0)
    return { mistakes }
  return { ban: { rule: rule.name.toWellFormed(), clientKey, lastsMs: Math.ceil(lastsMs) } }
}

function needOf({ source: { by } }: CompiledBan): string {
  const isList = Array.isArray(by) && by.length > 1
  const need = isList ? 'a JSON list, as a text, with a text for each of ' : ''
  return `must be what the rule counts by: ${need}${keyInWords(by)}`
}

/** How many counts are reset at a time, each of them with a call to the store. */
const FORGOTTEN_AT_ONCE = 1000

export interface BanControlOptions extends StrikeOptions {
  readonly notices: Notices
  /** Milliseconds since the epoch. */
  readonly wallNow: () => number
  readonly banStore: BanStore
  readonly bans: BanList
  readonly limiter: Pick<Limiter, 'banRules'>
}

/** For a service with rules: changes the store as the commands do, and obeys the change at once. */
export function createBanControl(options: BanControlOptions): BanControl {
  const { banStore, store, notices, limiter, bans, wallNow } = options

  async function forgetAll(changed: readonly Ban[]): Promise<void> {
    for (let at = 0; at < changed.length; at += FORGOTTEN_AT_ONCE) {
      const part = changed.slice(at, at + FORGOTTEN_AT_ONCE)
      await Promise.all(part.map(ban => forgetStrikes(ban, options)))
    }
  }

  const moment = () => ({ now: bans.now(), wallNow: wallNow() })

  return {
    moment: async () => moment(),

    list: async query => {
      await bans.saved()
      return banStore.list(query)
    },

    add: async (order, requestId) => {
      const surroundings = { bans: limiter.banRules(), isCounting: store !== undefined }
      const checked = checkBanOrder(order, surroundings)
      if ('mistakes' in checked) throw banRefused(checked.mistakes)
      const ban = { ...checked.ban, endsAt: Math.ceil(bans.now() + checked.ban.lastsMs) }
      await bans.saved()
      await banStore.save(ban)
      bans.obey(ban)
      const banEndsAt = endOf(ban, moment())
      notices.banChanged('made', { ...ban, banEndsAt }, requestId)
      await forgetStrikes(ban, options)
      return ban
    },

    lift: async (selection, requestId) => {
      await bans.saved()
      const lifted = await banStore.lift(selection)
      // While the bans are still in force here: a strike that is counted with those before would begin another one.
      await forgetAll(lifted)
      await bans.forget(lifted)
      for (const ban of lifted) notices.banChanged('lifted', ban, requestId)
      return lifted.length
    },
  }
}
