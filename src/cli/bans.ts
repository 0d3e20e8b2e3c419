import { type Config, type Environment, loadConfig, problemWith } from '../config.ts'
import { OperatorError } from '../errors.ts'
import type { Ban, BanSelection, BanStore } from '../limits/ban-store.ts'
import { namedKey, possibleKeys } from '../limits/client-key.ts'
import { keyInWords, textInWords } from '../limits/rule-words.ts'
import { type CheckedLimits, durationMs } from '../limits/rules-schema.ts'
import { openBans } from '../wiring/open-bans.ts'
import { readLimits } from '../wiring/open-limits.ts'
import { EXIT, UsageError } from './command-context.ts'
import { print } from './print.ts'
import { inWords } from './progress.ts'

/** Prints the bans in force, the first to end first: a line each, or all as JSON. */
export async function listBans(
  environment: Environment,
  { asJson }: { asJson: boolean },
): Promise<number> {
  const bans = await withBans(loadConfig(environment), async store => {
    const found: Ban[] = []
    for await (const part of store.load()) found.push(...part)
    return found
  })
  if (asJson) {
    const rows = bans.map(({ rule, clientKey, endsAt }) => ({
      rule,
      key: clientKey,
      ends_at: isoTime(endsAt),
    }))
    await print(JSON.stringify(rows, undefined, 2))
  } else if (bans.length === 0) await print('no bans')
  else await print(bans.map(lineOf).join('\n'))
  return EXIT.done
}

export interface Lifted {
  readonly key: string | undefined
  readonly rule: string | undefined
  readonly all: boolean
}

/** Lifts the bans of a client, of a rule, of a client by a rule, or all; prints those that were in force. */
export async function liftBans(environment: Environment, lifted: Lifted): Promise<number> {
  const { key, rule, all } = lifted
  const isSome = key !== undefined || rule !== undefined
  if (all === isSome) throw new UsageError('bans lift needs a KEY, --rule NAME or both, or --all')
  const selection: BanSelection = {
    ...(key !== undefined && { clientKeys: possibleKeys(key) }),
    ...(rule !== undefined && { rule }),
  }
  const bans = await withBans(loadConfig(environment), store => store.lift(selection))
  if (bans.length === 0 && isSome) {
    const whose = key === undefined ? '' : ` of ${textInWords(key)}`
    const whence = rule === undefined ? '' : ` by the rule ${JSON.stringify(rule)}`
    throw new OperatorError([`there is no ban${whose}${whence}; see bans list`])
  }
  await print(bans.map(ban => `lifted: ${lineOf(ban)}`).join('\n') || 'no bans')
  return EXIT.done
}

export interface Added {
  readonly rule: string
  readonly key: string
  /** A time as rules have it; that of the rule where it is left out. */
  readonly time: string | undefined
}

/** Bans a client by a rule of LIMITS_FILE, as if it had broken it, in place of a ban that it has. */
export async function addBan(environment: Environment, added: Added): Promise<number> {
  const forMs = added.time === undefined ? undefined : durationMs(added.time)
  if (added.time !== undefined && forMs === undefined) {
    const may = 'it may be a time such as "1 hour", more than 0 and at most a year'
    throw new UsageError(`--for was ${textInWords(added.time)}; ${may}`)
  }
  const config = loadConfig(environment)
  const rule = await findRule(config, added.rule)
  const clientKey = namedKey(rule.by, added.key)
  if (clientKey === undefined) throw new OperatorError([whyNobody(rule, added.key)])
  const banMs = forMs ?? (durationMs(rule.bantime) as number)
  const ban = { rule: rule.name, clientKey, endsAt: Date.now() + banMs }
  await withBans(config, store => store.save(ban))
  await print(`banned: ${lineOf(ban)}`)
  return EXIT.done
}

type BanRule = CheckedLimits['bans'][number]

async function findRule(config: Config, name: string): Promise<BanRule> {
  if (config.limitsFile === undefined) {
    throw new OperatorError(['LIMITS_FILE is not set, and without its rules nobody is kept out'])
  }
  const { bans } = await readLimits(config.limitsFile)
  const rule = bans.find(each => each.name === name)
  if (rule === undefined) {
    const names = bans.map(each => JSON.stringify(each.name)).join(', ') || 'none'
    throw new OperatorError([
      problemWith(
        'LIMITS_FILE',
        config.limitsFile,
        `it has no ban rule ${textInWords(name)}, only ${names}`,
      ),
    ])
  }
  if (rule.dryRun) {
    throw new OperatorError([
      `the rule ${JSON.stringify(name)} is on trial (dryRun) and keeps nobody out`,
    ])
  }
  if (config.cacheStore === 'none') {
    throw new OperatorError(['CACHE_STORE was "none", with which bans have no effect'])
  }
  return rule
}

function whyNobody({ name, by }: BanRule, key: string): string {
  const counted = `the rule ${JSON.stringify(name)} counts by ${keyInWords(by)}`
  const isList = Array.isArray(by) && by.length > 1
  const need = isList ? 'a JSON list with a text for each' : 'one of those'
  return `KEY was ${textInWords(key)}, but ${counted}; it may be ${need}`
}

async function withBans<T>(config: Config, work: (store: BanStore) => Promise<T>): Promise<T> {
  const bans = await openBans(config)
  try {
    return await work(bans.store)
  } finally {
    await bans.close()
  }
}

function lineOf({ rule, clientKey, endsAt }: Ban): string {
  const left = inWords((endsAt - Date.now()) / 1000)
  return `${textInWords(rule)}  ${textInWords(clientKey)}  until ${isoTime(endsAt)} (${left})`
}

/** An end that no date can tell is one of a database that somebody else wrote to. */
function isoTime(ms: number): string {
  return new Date(Math.min(ms, MAX_DATE_MS)).toISOString()
}

/** ECMA-262 21.4.1.1 */
const MAX_DATE_MS = 8.64e15
