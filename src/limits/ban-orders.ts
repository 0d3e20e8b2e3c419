import { durationMs } from '../config/values.ts'
import {
  type BanControl,
  type BanMistake,
  type BanOrder,
  banRefused,
  NO_LIMITS_FILE,
} from './ban-control.ts'
import { forgetStrikes, type StrikeOptions } from './ban-handlers.ts'
import type { BanList } from './ban-list.ts'
import type { Ban, BanStore } from './ban-store.ts'
import type { Limiter } from './limiter.ts'
import { namedKey } from './rules/client-key.ts'
import { keyInWords } from './rules/describe-rules.ts'
import type { CompiledBan } from './rules/rules-schema.ts'

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

/** Reports what is wrong with a field. */
type Refuse = (message: string) => undefined

/** The result is as the store keeps it: well-formed text, and whole milliseconds. */
export function checkBanOrder(order: BanOrder, surroundings: BanSurroundings): CheckedBan {
  const mistakes: BanMistake[] = []
  const refuse =
    (field: BanMistake['field']): Refuse =>
    message =>
      void mistakes.push({ field, message })
  const rule = findRule(order.rule, surroundings, refuse('rule'))
  const clientKey = findClient(order.client, rule, refuse('client'))
  const time = findTime(order.for, refuse('for'))
  if (rule === undefined || clientKey === undefined || mistakes.length > 0) return { mistakes }
  const lastsMs = Math.ceil(time ?? rule.banMs)
  return { ban: { rule: rule.name.toWellFormed(), clientKey, lastsMs } }
}

function findRule(
  value: unknown,
  { bans, isCounting }: BanSurroundings,
  refuse: Refuse,
): CompiledBan | undefined {
  if (bans === undefined) return refuse(NO_LIMITS_FILE.message)
  const name = findText(value, refuse)
  if (name === undefined) return undefined
  const rule = bans.find(each => each.name === name)
  if (rule === undefined) {
    const names = bans.map(each => JSON.stringify(each.name)).join(', ') || 'none'
    return refuse(`must be a ban rule of the limits: ${names}`)
  }
  if (rule.isDryRun) return refuse('is in dry run and bans no client')
  return isCounting ? rule : refuse('has no effect, because CACHE_STORE is "none"')
}

/** Without a rule only that there is a text can be checked. */
function findClient(
  value: unknown,
  rule: CompiledBan | undefined,
  refuse: Refuse,
): string | undefined {
  const name = findText(value, refuse)
  if (name === undefined || rule === undefined) return undefined
  const { by } = rule.source
  const isList = Array.isArray(by) && by.length > 1
  const need = isList ? 'a JSON list, as a text, with a text for each of ' : ''
  return namedKey(by, name) ?? refuse(`must be what the rule counts by: ${need}${keyInWords(by)}`)
}

function findTime(value: unknown, refuse: Refuse): number | undefined {
  if (value === undefined || value === null) return undefined
  return (
    durationMs(value) ?? refuse('must be a time such as "1 hour", more than 0 and at most a year')
  )
}

function findText(value: unknown, refuse: Refuse): string | undefined {
  if (value === undefined || value === null || value === '') return refuse("can't be blank")
  return typeof value === 'string' ? value : refuse('must be a string')
}

/** How many counts are reset at a time, each of them with a call to the store. */
const FORGOTTEN_AT_ONCE = 1000

export interface BanControlOptions extends StrikeOptions {
  readonly banStore: BanStore
  readonly bans: BanList
  readonly limiter: Pick<Limiter, 'banRules'>
}

/** For a service with rules: changes the store as the commands do, and obeys the change at once. */
export function createBanControl(options: BanControlOptions): BanControl {
  const { banStore, store, notices, limiter, bans } = options

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

    add: async (order, requestId) => {
      const surroundings = { bans: limiter.banRules(), isCounting: store !== undefined }
      const checked = checkBanOrder(order, surroundings)
      if ('mistakes' in checked) throw banRefused(checked.mistakes)
      const ban = { ...checked.ban, endsAt: Math.ceil(bans.now() + checked.ban.lastsMs) }
      await bans.saved()
      await banStore.save(ban)
      bans.obey(ban)
      notices.banChanged('made', ban, requestId)
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
