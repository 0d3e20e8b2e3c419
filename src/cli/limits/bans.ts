import type { Config } from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'
import { checkBanOrder } from '../../limits/ban-orders.ts'
import {
  type Ban,
  type BanSelection,
  type BanStore,
  endOf,
  jsonOf,
  remainingOf,
} from '../../limits/ban-store.ts'
import { possibleKeys } from '../../limits/rules/client-key.ts'
import { textInWords } from '../../limits/rules/describe-rules.ts'
import { durationMs } from '../../limits/rules/rule-values.ts'
import { openStorageForCommand } from '../../open-database.ts'
import { readLimits } from '../../open-limits.ts'
import { readConfig } from '../terminal/read-config.ts'
import {
  EXIT,
  inWords,
  type JsonFlags,
  print,
  printJson,
  type Terminal,
  UsageError,
} from '../terminal/terminal.ts'

/** Prints the bans in force, ordered by rule and then by client. */
export async function listBans(terminal: Terminal, { json }: JsonFlags): Promise<number> {
  const bans = await withBans(readConfig(terminal), readBans)
  if (json)
    await printJson(
      terminal,
      bans.map(ban => jsonOf(ban, Date.now())),
    )
  else if (bans.length === 0) await print(terminal, 'no bans')
  else await print(terminal, bans.map(lineOf).join('\n'))
  return EXIT.done
}

export interface LiftOptions extends JsonFlags {
  readonly key: string | undefined
  readonly rule: string | undefined
  readonly all: boolean
}

/** Lifts the bans of a client, of a rule, of a client by a rule, or all. Prints the bans that were in force. */
export async function liftBans(terminal: Terminal, options: LiftOptions): Promise<number> {
  const { key, rule, all, json } = options
  const isSome = key !== undefined || rule !== undefined
  if (all === isSome) throw new UsageError('bans lift needs a KEY, --rule NAME or both, or --all')
  const selection: BanSelection = {
    ...(key !== undefined && { clientKeys: possibleKeys(key) }),
    ...(rule !== undefined && { rule }),
  }
  const bans = await withBans(readConfig(terminal), store => store.lift(selection))
  if (json) await printJson(terminal, { lifted: bans.length })
  if (bans.length === 0 && isSome) {
    const ofClient = key === undefined ? '' : ` of ${textInWords(key)}`
    const byRule = rule === undefined ? '' : ` by the rule ${JSON.stringify(rule)}`
    throw new OperatorError([`there is no ban${ofClient}${byRule}; see bans list`])
  }
  if (!json)
    await print(terminal, bans.map(ban => `lifted: ${lineOf(ban)}`).join('\n') || 'no bans')
  return EXIT.done
}

export interface BanOptions extends JsonFlags {
  readonly rule: string
  readonly key: string
  /** A time as in rules; the bantime of the rule if left out. */
  readonly time: string | undefined
}

/** The arguments and the option of `bans add`. */
const NAMES = { rule: 'RULE', client: 'KEY', for: '--for' } as const

/** Bans a client as if it had broken a rule of LIMITS_FILE. Replaces an earlier ban of the same client and rule. */
export async function addBan(terminal: Terminal, options: BanOptions): Promise<number> {
  const { time } = options
  if (time !== undefined && durationMs(time) === undefined) {
    const may = 'it may be a time such as "1 hour", more than 0 and at most a year'
    throw new UsageError(`--for was ${textInWords(time)}; ${may}`)
  }
  const config = readConfig(terminal)
  const { limitsFile, cacheStore } = config
  const order = { rule: options.rule, client: options.key, for: time }
  const checked = checkBanOrder(order, {
    bans: limitsFile === undefined ? undefined : (await readLimits(limitsFile)).bans,
    isCounting: cacheStore !== 'none',
    now: Date.now(),
  })
  if ('mistakes' in checked) {
    throw new OperatorError(
      checked.mistakes.map(({ field, message }) => {
        return `${NAMES[field]} was ${textInWords(order[field] ?? '')}, but it ${message}`
      }),
    )
  }
  const { ban } = checked
  await withBans(config, store => store.save(ban))
  await (options.json
    ? printJson(terminal, jsonOf(ban, Date.now()))
    : print(terminal, `banned: ${lineOf(ban)}`))
  return EXIT.done
}

/** Few enough for one answer of the database in time. */
const BANS_OF_ONE_READ = 10_000

async function readBans(store: BanStore): Promise<readonly Ban[]> {
  const bans: Ban[] = []
  for (;;) {
    const last = bans.at(-1)
    const page = await store.list({ limit: BANS_OF_ONE_READ, ...(last && { after: last }) })
    bans.push(...page.bans)
    if (!page.hasMore) return bans
  }
}

async function withBans<T>(config: Config, work: (store: BanStore) => Promise<T>): Promise<T> {
  const storage = await openStorageForCommand(config, { ifMissing: 'refuse' })
  try {
    return await work(storage.bans)
  } finally {
    await storage.close()
  }
}

function lineOf(ban: Ban): string {
  const { rule, clientKey } = ban
  const left = inWords(remainingOf(ban, Date.now()) / 1000)
  return `${textInWords(rule)}  ${textInWords(clientKey)}  until ${endOf(ban, Date.now())} (${left})`
}
