import type { TraceStep } from '../../limits/notices.ts'
import type {
  CheckedLimits,
  CompiledBan,
  CompiledRateLimit,
  RuleKind,
} from '../../limits/rules/compiled-rules.ts'
import type { Key } from '../../limits/rules/limits-file.ts'
import { keyInWords, textInWords, timeInWords } from '../../limits/rules/rule-words.ts'

/** What the rules did with one request, one step for each rule, in the order in which they were asked. */
export interface RuleTrace {
  readonly steps: () => readonly TraceStep[]
  add(step: TraceStep): void
}

export function createRuleTrace(): RuleTrace {
  const stepByRule = new Map<string, TraceStep>()
  return {
    steps: () => [...stepByRule.values()],
    add: step => {
      const rule = `${step.type} ${step.rule}`
      stepByRule.set(rule, { ...stepByRule.get(rule), ...step })
    },
  }
}

/** Describes steps to people. */
export interface StepWords {
  /** As in `bans "login"`. */
  name(step: Pick<TraceStep, 'type' | 'rule'>): string
  /** What the rule did, without the count. */
  state(step: TraceStep): string
  /** The count of the rule, or the counts up to `highest` of several requests. */
  count(step: TraceStep, highest: number): string
}

const KIND_OF_TYPE: Readonly<Record<TraceStep['type'], RuleKind>> = {
  safelist: 'safelist',
  blocklist: 'blocklist',
  ban: 'bans',
  throttle: 'throttle',
  track: 'track',
  rateLimit: 'rateLimits',
}

/** A rule of any kind, with the keys that some kinds have. */
type AnyRule = Partial<
  Omit<CompiledBan, 'limit' | 'windowMs' | 'source'> &
    Pick<CompiledRateLimit, 'limit' | 'windowMs'> & { readonly source: { readonly by?: Key } }
>

export function createStepWords(limits: CheckedLimits, isCounting: boolean): StepWords {
  function ruleOf({ type, rule }: TraceStep): AnyRule {
    const rules: readonly { readonly name: string }[] = limits[KIND_OF_TYPE[type]]
    return rules.find(({ name }) => name === rule) ?? {}
  }

  function state(step: TraceStep): string {
    const { type, count, isOver, isDenied, otherStatus, failure } = step
    const rule = ruleOf(step)
    if ('failure' in step) {
      return `lets it pass, because its function failed: ${textInWords(messageOf(failure))}`
    }
    if (otherStatus !== undefined) {
      return `matches, and does not count, because the answer is ${otherStatus}`
    }
    if (type === 'safelist') return 'matches: no other rule is asked'
    if (type === 'blocklist') return `matches: ${denialWords(rule)}`
    if (type === 'track' && rule.limit === undefined) return 'matches: reported'
    if (type === 'ban') return banWords(step, rule, isCounting)
    if (count === undefined) return uncountedWords(rule, isCounting)
    if (!isOver) return 'matches'
    if (type === 'track') return 'matches over its limit: reported'
    const isLetPass = !isDenied && !rule.isDryRun
    return `matches over its limit: ${isLetPass ? 'its function lets it pass' : denialWords(rule)}`
  }

  return {
    name: ({ type, rule }) => `${KIND_OF_TYPE[type]} ${JSON.stringify(rule)}`,
    state,
    count: (step, highest) => {
      const { key, count } = step
      const client = key === undefined ? '' : ` for ${textInWords(key)}`
      if (count === undefined) return client && ` (${client.trim()})`
      const counts = highest > count ? `${count} to ${highest}` : `${count}`
      return ` (${counts}${quotaWords(ruleOf(step))}${client})`
    },
  }
}

function banWords({ count, isBanned }: TraceStep, rule: AnyRule, isCounting: boolean): string {
  const { deniesStrikes: isEach, limit = 1, banMs = 0, isDryRun } = rule
  if (isBanned) return `denies a client that it has banned${isDryRun ? DRY_RUN : ''}`
  const each = isEach ? `: ${denialWords(rule)}` : ''
  if (count === undefined) return `${uncountedWords(rule, isCounting)}${each}`
  if (count < Number(limit)) return `matches${each}`
  const banned = `the client ${isDryRun ? 'would be' : 'is'} banned for ${timeInWords(banMs)}`
  return `matches${isEach ? `${each}, and` : ':'} ${banned}${isDryRun ? DRY_RUN : ''}`
}

function uncountedWords({ source }: AnyRule, isCounting: boolean): string {
  const why = isCounting ? `it has no key (${keyInWords(source?.by)})` : 'CACHE_STORE is none'
  return `matches, and does not count, because ${why}`
}

function quotaWords({ limit, windowMs }: AnyRule): string {
  if (typeof limit !== 'number' || typeof windowMs !== 'number') return ''
  return ` of ${limit} in ${timeInWords(windowMs)}`
}

const DRY_RUN = ' (dry run)'

function denialWords({ isDryRun }: AnyRule): string {
  return isDryRun ? `would be refused${DRY_RUN}` : 'refused'
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
