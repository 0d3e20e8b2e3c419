import { type BanMistake, type BanOrder, NO_LIMITS_FILE } from './ban-control.ts'
import type { Ban } from './ban-store.ts'
import { namedKey } from './rules/client-key.ts'
import { keyInWords } from './rules/describe-rules.ts'
import { durationMs } from './rules/rule-values.ts'
import type { CompiledBan } from './rules/rules-schema.ts'

/** What decides whether an order can be carried out. */
export interface BanSurroundings {
  /** The ban rules in force; `undefined` without LIMITS_FILE. */
  readonly bans: readonly CompiledBan[] | undefined
  /** False with CACHE_STORE=none: bans then have no effect. */
  readonly isCounting: boolean
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** The ban that an order asks for, or all mistakes in it. */
export type CheckedBan = { readonly ban: Ban } | { readonly mistakes: readonly BanMistake[] }

/** The result is as the store keeps it: well-formed text, and whole milliseconds. */
export function checkBanOrder(order: BanOrder, surroundings: BanSurroundings): CheckedBan {
  const rule = findRule(order.rule, surroundings)
  const clientKey = findClient(order.client, 'problem' in rule ? undefined : rule)
  const time = findTime(order.for)
  if ('problem' in rule || typeof clientKey !== 'string' || typeof time === 'object') {
    const mistakes = [rule, clientKey, time].filter(isMistake)
    return { mistakes }
  }
  const lastsMs = Math.ceil(time ?? rule.banMs)
  const endsAt = Math.ceil(surroundings.now + lastsMs)
  return { ban: { rule: rule.name.toWellFormed(), clientKey, endsAt, lastsMs } }
}

function isMistake(value: unknown): value is BanMistake {
  return typeof value === 'object' && value !== null && 'problem' in value
}

function findRule(value: unknown, { bans, isCounting }: BanSurroundings): CompiledBan | BanMistake {
  const field = 'rule'
  if (bans === undefined) return NO_LIMITS_FILE
  const name = textOf(value, field)
  if (typeof name === 'object') return name
  const rule = bans.find(each => each.name === name)
  if (rule === undefined) {
    const names = bans.map(each => JSON.stringify(each.name)).join(', ') || 'none'
    return { field, problem: 'unknown', message: `must be a ban rule of the limits: ${names}` }
  }
  if (rule.isDryRun) {
    return { field, problem: 'dry run', message: 'is in dry run and bans no client' }
  }
  if (!isCounting) {
    const message = 'has no effect, because CACHE_STORE is "none"'
    return { field, problem: 'nothing counts', message }
  }
  return rule
}

/** Without a rule only that there is a text can be checked. */
function findClient(value: unknown, rule: CompiledBan | undefined): string | BanMistake {
  const field = 'client'
  const name = textOf(value, field)
  if (typeof name === 'object' || rule === undefined) return name
  const { by } = rule.source
  const isList = Array.isArray(by) && by.length > 1
  const need = isList ? 'a JSON list, as a text, with a text for each of ' : ''
  const message = `must be what the rule counts by: ${need}${keyInWords(by)}`
  return namedKey(by, name) ?? { field, problem: 'no such client', message }
}

function findTime(value: unknown): number | undefined | BanMistake {
  if (value === undefined || value === null) return undefined
  const isTime = typeof value === 'string' || typeof value === 'number'
  const ms = isTime ? durationMs(value) : undefined
  if (ms !== undefined) return ms
  const message = 'must be a time such as "1 hour", more than 0 and at most a year'
  return { field: 'for', problem: 'no time', message }
}

function textOf(value: unknown, field: 'rule' | 'client'): string | BanMistake {
  if (value === undefined || value === null || value === '') {
    return { field, problem: 'blank', message: "can't be blank" }
  }
  return typeof value === 'string'
    ? value
    : { field, problem: 'no text', message: 'must be a string' }
}
