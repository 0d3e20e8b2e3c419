import type { Config } from '../../config/settings.ts'
import { durationMs } from '../../config/values.ts'
import { OperatorError } from '../../errors.ts'
import {
  type Ban,
  type BanStore,
  endOf,
  jsonOf,
  type Moment,
  remainingOf,
} from '../../limits/ban-store.ts'
import { checkBanOrder } from '../../limits/kinds/ban-control.ts'
import { possibleKeys } from '../../limits/rules/client-key.ts'
import { readLimits } from '../../wiring/open-limits.ts'
import { openStorageForCommand } from '../../wiring/open-storage.ts'
import { readConfig } from '../terminal/read-config.ts'
import {
  EXIT,
  inWords,
  type JsonFlags,
  notify,
  type Outcome,
  type Terminal,
  textInWords,
  UsageError,
  wrongValue,
} from '../terminal/terminal.ts'

/** The bans in force, ordered by rule and then by client. */
export async function listBans(terminal: Terminal): Promise<Outcome> {
  const { result: bans, moment } = await withBans(readConfig(terminal), readBans)
  return { lines: linesOf(bans, moment), json: bans.map(ban => jsonOf(ban, moment)) }
}

export interface LiftOptions extends JsonFlags {
  readonly key: string | undefined
  readonly rule?: string
  readonly all?: boolean
}

/** Lifts the bans of a client, of a rule, of a client by a rule, or all. The outcome has the bans that were in force. */
export async function liftBans(terminal: Terminal, options: LiftOptions): Promise<Outcome> {
  const { key, rule, all = false } = options
  const isSome = key !== undefined || rule !== undefined
  if (all === isSome) throw new UsageError('bans lift needs a KEY, --rule NAME or both, or --all')
  const clientKeys = key === undefined ? undefined : possibleKeys(key)
  const { result: bans, moment } = await withBans(readConfig(terminal), store =>
    store.lift({ rule, clientKeys }),
  )
  const json = { lifted: bans.length }
  if (bans.length > 0 || !isSome) return { lines: linesOf(bans, moment, 'lifted: '), json }
  const ofClient = key === undefined ? '' : ` of ${textInWords(key)}`
  const byRule = rule === undefined ? '' : ` by the rule ${JSON.stringify(rule)}`
  notify(terminal, `there is no ban${ofClient}${byRule}; see bans list`)
  return { lines: [], json, exitCode: EXIT.failed }
}

const NAMES = { rule: 'RULE', client: 'KEY', for: '--for' } as const

/**
 * Bans a client as if it had broken a rule of LIMITS_FILE, for a time as in rules or else for the bantime of the rule. Replaces an
 * earlier ban of the same client and rule.
 */
export async function addBan(
  terminal: Terminal,
  order: { readonly rule: string; readonly client: string; readonly for?: string },
): Promise<Outcome> {
  const { for: time } = order
  if (time !== undefined && durationMs(time) === undefined) {
    throw wrongValue('--for', time, 'a time such as "1 hour", more than 0 and at most a year')
  }
  const config = readConfig(terminal)
  const { limitsFile, cacheStore } = config
  const rules = limitsFile === undefined ? undefined : (await readLimits(limitsFile)).bans
  const checked = checkBanOrder(order, rules, cacheStore !== 'none')
  if ('mistakes' in checked) {
    throw new OperatorError(
      checked.mistakes.map(({ field, message }) => {
        return `${NAMES[field]} was ${textInWords(order[field] ?? '')}, but it ${message}`
      }),
    )
  }
  const { result: ban, moment } = await withBans(config, async (store, { now }) => {
    const ban = { ...checked.ban, endsAt: now + checked.ban.lastsMs }
    await store.save(ban)
    return ban
  })
  return { lines: linesOf([ban], moment, 'banned: '), json: jsonOf(ban, moment) }
}

/** Few enough for one answer of the database in time. */
const BANS_OF_ONE_READ = 10_000

async function readBans(store: BanStore): Promise<readonly Ban[]> {
  const bans: Ban[] = []
  for (;;) {
    const page = await store.list({ limit: BANS_OF_ONE_READ, after: bans.at(-1) })
    bans.push(...page.bans)
    if (!page.hasMore) return bans
  }
}

/** The result of `work`, and the moment before it. */
async function withBans<T>(
  config: Config,
  work: (store: BanStore, moment: Moment) => Promise<T>,
): Promise<{ readonly result: T; readonly moment: Moment }> {
  const storage = await openStorageForCommand(config, { ifMissing: 'refuse' })
  try {
    const moment = { now: await storage.bans.now(), wallNow: Date.now() }
    return { result: await work(storage.bans, moment), moment }
  } finally {
    await storage.close()
  }
}

function linesOf(bans: readonly Ban[], moment: Moment, start = ''): readonly string[] {
  if (bans.length === 0) return ['no bans']
  return bans.map(ban => {
    const client = `${textInWords(ban.rule)}  ${textInWords(ban.clientKey)}`
    const left = inWords(remainingOf(ban, moment.now) / 1000)
    return `${start}${client}  until ${endOf(ban, moment)} (${left})`
  })
}
