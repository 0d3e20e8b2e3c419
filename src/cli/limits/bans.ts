import { type Config, describeProblem, type Environment } from '../../config.ts'
import { OperatorError } from '../../errors.ts'
import {
  type Ban,
  type BanSelection,
  type BanStore,
  MAX_DATE_MS,
  remainingOf,
} from '../../limits/ban-store.ts'
import { namedKey, possibleKeys } from '../../limits/rules/client-key.ts'
import type { CompiledBan } from '../../limits/rules/compiled-rules.ts'
import { durationMs } from '../../limits/rules/rule-values.ts'
import { keyInWords, textInWords } from '../../limits/rules/rule-words.ts'
import { readLimits } from '../../wiring/open-limits.ts'
import { openStorageForCommand } from '../../wiring/open-storage.ts'
import { EXIT, type JsonFlags, UsageError } from '../terminal/command-context.ts'
import { print, printJson } from '../terminal/print.ts'
import { inWords } from '../terminal/progress.ts'
import { readConfig } from '../terminal/read-config.ts'

/** Prints the bans in force, the first to end first. */
export async function listBans(environment: Environment, { json }: JsonFlags): Promise<number> {
  const bans = await withBans(readConfig(environment), async store => {
    const found: Ban[] = []
    for await (const part of store.load()) found.push(...part)
    return found
  })
  if (json) await printJson(bans.map(jsonOf))
  else if (bans.length === 0) await print('no bans')
  else await print(bans.map(lineOf).join('\n'))
  return EXIT.done
}

export interface LiftOptions extends JsonFlags {
  readonly key: string | undefined
  readonly rule: string | undefined
  readonly all: boolean
}

/** Lifts the bans of a client, of a rule, of a client by a rule, or all. Prints the bans that were in force. */
export async function liftBans(environment: Environment, options: LiftOptions): Promise<number> {
  const { key, rule, all, json } = options
  const isSome = key !== undefined || rule !== undefined
  if (all === isSome) throw new UsageError('bans lift needs a KEY, --rule NAME or both, or --all')
  const selection: BanSelection = {
    ...(key !== undefined && { clientKeys: possibleKeys(key) }),
    ...(rule !== undefined && { rule }),
  }
  const bans = await withBans(readConfig(environment), store => store.lift(selection))
  if (json) await printJson({ lifted: bans.length })
  if (bans.length === 0 && isSome) {
    const ofClient = key === undefined ? '' : ` of ${textInWords(key)}`
    const byRule = rule === undefined ? '' : ` by the rule ${JSON.stringify(rule)}`
    throw new OperatorError([`there is no ban${ofClient}${byRule}; see bans list`])
  }
  if (!json) await print(bans.map(ban => `lifted: ${lineOf(ban)}`).join('\n') || 'no bans')
  return EXIT.done
}

export interface BanOptions extends JsonFlags {
  readonly rule: string
  readonly key: string
  /** A time as in rules; the bantime of the rule if left out. */
  readonly time: string | undefined
}

/** Bans a client as if it had broken a rule of LIMITS_FILE. Replaces an earlier ban of the same client and rule. */
export async function addBan(environment: Environment, options: BanOptions): Promise<number> {
  const forMs = options.time === undefined ? undefined : durationMs(options.time)
  if (options.time !== undefined && forMs === undefined) {
    const may = 'it may be a time such as "1 hour", more than 0 and at most a year'
    throw new UsageError(`--for was ${textInWords(options.time)}; ${may}`)
  }
  const config = readConfig(environment)
  const rule = await findRule(config, options.rule)
  const clientKey = namedKey(rule.source.by, options.key)
  if (clientKey === undefined) throw new OperatorError([explainKey(rule, options.key)])
  const banMs = forMs ?? rule.banMs
  const ban = { rule: rule.name, clientKey, endsAt: Date.now() + banMs, lastsMs: banMs }
  await withBans(config, store => store.save(ban))
  await (options.json ? printJson(jsonOf(ban)) : print(`banned: ${lineOf(ban)}`))
  return EXIT.done
}

async function findRule(config: Config, name: string): Promise<CompiledBan> {
  if (config.limitsFile === undefined) {
    throw new OperatorError(['LIMITS_FILE is not set: without its rules no client is banned'])
  }
  const { bans } = (await readLimits(config.limitsFile)).limits
  const rule = bans.find(each => each.name === name)
  if (rule === undefined) {
    const names = bans.map(each => JSON.stringify(each.name)).join(', ') || 'none'
    throw new OperatorError([
      describeProblem(
        'LIMITS_FILE',
        config.limitsFile,
        `it has no ban rule ${textInWords(name)}, only ${names}`,
      ),
    ])
  }
  if (rule.isDryRun) {
    throw new OperatorError([`the rule ${JSON.stringify(name)} is in dry run and bans no client`])
  }
  if (config.cacheStore === 'none') {
    throw new OperatorError(['CACHE_STORE was "none": bans then have no effect'])
  }
  return rule
}

function explainKey({ name, source }: CompiledBan, key: string): string {
  const { by } = source
  const counted = `the rule ${JSON.stringify(name)} counts by ${keyInWords(by)}`
  const isList = Array.isArray(by) && by.length > 1
  const need = isList ? 'a JSON list with a text for each' : 'one of those'
  return `KEY was ${textInWords(key)}, but ${counted}; it may be ${need}`
}

async function withBans<T>(config: Config, work: (store: BanStore) => Promise<T>): Promise<T> {
  const storage = await openStorageForCommand(config, { ifMissing: 'refuse' })
  try {
    return await work(storage.bans)
  } finally {
    await storage.close()
  }
}

/** A ban as `--json` prints it. */
function jsonOf(ban: Ban) {
  return { rule: ban.rule, client: ban.clientKey, ends_at: endOf(ban) }
}

function lineOf(ban: Ban): string {
  const { rule, clientKey } = ban
  const left = inWords(remainingOf(ban, Date.now()) / 1000)
  return `${textInWords(rule)}  ${textInWords(clientKey)}  until ${endOf(ban)} (${left})`
}

/**
 * The end of a ban as text, limited to what a date can hold: another program may have written any number into the database.
 */
function endOf({ endsAt, lastsMs }: Ban): string {
  return new Date(Math.min(endsAt, Date.now() + lastsMs, MAX_DATE_MS)).toISOString()
}
