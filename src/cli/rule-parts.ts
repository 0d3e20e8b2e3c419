import type { LimitsEvent } from '../limits/limits-watch.ts'
import { keyInWords, textInWords, timeInWords } from '../limits/rule-words.ts'
import { type CheckedLimits, durationMs, type RuleKind } from '../limits/rules-schema.ts'

type NoticeType = LimitsEvent['type']

/** What one rule had to do with one request. */
export interface RulePart {
  readonly type: NoticeType
  readonly rule: string
  readonly key: string | undefined
  readonly count: number | undefined
  /** Whether a notice was published of what it decided. */
  readonly isNotice: boolean
  /** Whether that was about a ban of before, whatever the request is. */
  readonly isStanding: boolean
  /** Of its function that failed. */
  readonly failure: string | undefined
}

export interface RulePartWords {
  /** As in `bans "login"`. */
  name(part: Pick<RulePart, 'type' | 'rule'>): string
  /** What the rule does, without numbers that grow with each request. */
  state(part: RulePart): string
  /** How far it has counted, up to `most` in the requests that are told together. */
  count(part: RulePart, most: number | undefined): string
}

const KIND_OF_TYPE: Readonly<Record<NoticeType, RuleKind>> = {
  safelist: 'safelist',
  blocklist: 'blocklist',
  ban: 'bans',
  throttle: 'throttle',
  track: 'track',
  rateLimit: 'rateLimits',
}

/** Any rule, by the keys that some of them have. */
type AnyRule = Partial<
  CheckedLimits['bans'][number] &
    CheckedLimits['throttle'][number] &
    CheckedLimits['rateLimits'][number]
>

const FUNCTION_FAILED = 'function of a rule failed, request passes'

/** The rules that had to do with a request, in the order in which they first did, by what was seen and logged. */
export function partsOf(
  events: readonly LimitsEvent[],
  lines: readonly Readonly<Record<string, unknown>>[],
): readonly RulePart[] {
  const parts = new Map<string, RulePart>()
  for (const event of events) {
    const { type, rule, happened } = event
    const before = parts.get(`${type}\n${rule}`)
    parts.set(`${type}\n${rule}`, {
      type,
      rule,
      key: ('key' in event ? event.key : undefined) ?? before?.key,
      count: ('count' in event ? event.count : undefined) ?? before?.count,
      isNotice: happened === 'notice' || before?.isNotice === true,
      isStanding: before?.isStanding ?? (happened === 'notice' && type === 'ban'),
      failure: undefined,
    })
  }
  for (const { msg, type, rule, err } of lines) {
    if (msg !== FUNCTION_FAILED) continue
    const failure = textInWords(String((err as { message?: unknown } | undefined)?.message))
    const told = { type: type as NoticeType, rule: String(rule), failure }
    const nothing = { key: undefined, count: undefined, isNotice: false, isStanding: false }
    parts.set(`${type}\n${rule}`, { ...(parts.get(`${type}\n${rule}`) ?? nothing), ...told })
  }
  return [...parts.values()]
}

/** Puts into words what the rules did. */
export function createRulePartWords(limits: CheckedLimits, isCounting: boolean): RulePartWords {
  function ruleOf({ type, rule }: RulePart): AnyRule {
    const rules: readonly { readonly name: string }[] = limits[KIND_OF_TYPE[type]]
    return rules.find(({ name }) => name === rule) ?? {}
  }

  function state(part: RulePart): string {
    const { type, count, isNotice, failure } = part
    const rule = ruleOf(part)
    if (failure !== undefined) return `lets it pass, because its function failed: ${failure}`
    if (type === 'safelist') return 'matches: no other rule is asked'
    if (type === 'blocklist') return `matches: ${refused(rule)}`
    if (type === 'track' && rule.limit === undefined) return 'matches: told of'
    if (type === 'ban') return banState(part, rule)
    if (count === undefined) return uncounted(rule)
    if (!isNotice) return 'matches'
    return `matches past its limit: ${type === 'track' ? 'told of' : refused(rule)}`
  }

  function banState({ count, isStanding }: RulePart, rule: AnyRule): string {
    const { mode, maxretry = 1, bantime, dryRun } = rule
    const isEach = mode === 'fail2ban'
    if (isStanding) return `keeps out a client that it has banned${dryRun ? DRY_RUN : ''}`
    const each = isEach ? `: ${refused(rule)}` : ''
    if (count === undefined) return `${uncounted(rule)}${each}`
    if (count < maxretry) return `matches${each}`
    const banned = `the client ${dryRun ? 'would be' : 'is'} banned for ${time(bantime)}`
    return `matches${isEach ? `${each}, and` : ':'} ${banned}${dryRun ? DRY_RUN : ''}`
  }

  function uncounted({ by }: AnyRule): string {
    const why = isCounting ? `it has no key (${keyInWords(by)})` : 'CACHE_STORE is none'
    return `matches, and does not count, because ${why}`
  }

  function quota(part: RulePart): string {
    const { maxretry, limit, to, findtime, period, within } = ruleOf(part)
    const count = maxretry ?? limit ?? to
    const window = findtime ?? period ?? within
    if (typeof count !== 'number' || typeof window === 'function') return ''
    return ` of ${count} in ${time(window)}`
  }

  return {
    name: ({ type, rule }) => `${KIND_OF_TYPE[type]} ${JSON.stringify(rule)}`,
    state,
    count: (part, most) => {
      const { key, count } = part
      const client = key === undefined ? '' : ` for ${textInWords(key)}`
      if (count === undefined) return client && ` (${client.trim()})`
      const counts = most === undefined || most === count ? `${count}` : `${count} to ${most}`
      return ` (${counts}${quota(part)}${client})`
    },
  }
}

const DRY_RUN = ' (dry run)'

function refused({ dryRun }: AnyRule): string {
  return dryRun ? `would be refused${DRY_RUN}` : 'refused'
}

function time(given: string | number | undefined): string {
  return timeInWords(durationMs(given) ?? 0)
}
