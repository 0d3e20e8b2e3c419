import type { NoticeType, TraceStep } from '../../limits/notices.ts'
import { keyInWords, textInWords, timeInWords } from '../../limits/rules/describe-rules.ts'
import type { Key } from '../../limits/rules/limits-file.ts'
import { type CheckedLimits, RULE_KINDS, type RuleKind } from '../../limits/rules/rules-schema.ts'
import { TYPE_OF_KIND } from '../../limits/tallies.ts'

/** A header as it is written on the wire. */
export type HeaderLine = readonly [name: string, value: string]

/** The same request, sent once or several times. */
export interface Trial {
  readonly file: string
  readonly limits: CheckedLimits
  readonly request: { readonly method: string; readonly path: string; readonly ip: string }
  readonly isCounting: boolean
  /** One for each request, in order. */
  readonly results: readonly TrialResult[]
}

/** What the limits did with one request. */
export interface TrialResult {
  /** What each rule did that matched or failed, in the order in which the rules ran. */
  readonly steps: readonly TraceStep[]
  readonly status: number
  readonly headers: readonly HeaderLine[]
  readonly body: string
}

/** A value of `--expect`, about all requests together. */
export type Expectation = 'allowed' | 'denied'

/**
 * Why an expectation is not met, in one line; `undefined` if it is. `allowed` expects every request to pass. `denied` expects
 * the last one to be denied: the requests before it fill the window.
 */
export function whyUnexpected(
  expectation: Expectation,
  results: readonly TrialResult[],
): string | undefined {
  if (expectation === 'denied') {
    if (results.slice(-1).some(denialOf)) return undefined
    return `expected denied, but request ${results.length}, the last one, is allowed`
  }
  for (const [index, result] of results.entries()) {
    const denial = denialOf(result)
    if (denial !== undefined) {
      return `expected allowed, but request ${index + 1} is denied with ${result.status} by ${nameOf(denial)}`
    }
  }
  return undefined
}

/** The report for people. Consecutive requests that the rules treated alike share a paragraph. */
export function reportTrial(trial: Trial): string {
  const { file, request, results } = trial
  const groups: TrialResult[][] = []
  let lastId = ''
  for (const result of results) {
    const states = result.steps.map(step => [nameOf(step), stateOf(step, trial), step.key])
    const id = JSON.stringify([denialOf(result) && result.status, states])
    if (id === lastId) groups.at(-1)?.push(result)
    else groups.push([result])
    lastId = id
  }
  const title = `${request.method} ${request.path} from ${request.ip}, by the rules of ${textInWords(file)}`
  let end = 0
  const paragraphs = groups.map(group => {
    end += group.length
    return describeGroup(group, end, trial)
  })
  return [title, ...paragraphs].join('\n\n')
}

/** A paragraph about consecutive requests, the last of which has the number `end`. Shows the response to the first. */
function describeGroup(group: readonly TrialResult[], end: number, trial: Trial): string {
  const [first] = group as readonly [TrialResult]
  const isOne = group.length === 1
  const subject = isOne ? `request ${end}` : `requests ${end - group.length + 1} to ${end}`
  const lines = first.steps.map((step, index) => {
    const highest = Math.max(...group.map(({ steps }) => steps[index]?.count ?? 0))
    return `${nameOf(step)} ${stateOf(step, trial)}${countInWords(step, highest, trial)}`
  })
  const headers = limitHeadersOf(first).map(([name, value]) => `${name}: ${value}`)
  const denial = denialOf(first)
  const outcome =
    denial === undefined
      ? `${isOne ? 'passes' : 'pass'} the limits`
      : `${isOne ? 'is' : 'are'} refused with ${first.status} by ${nameOf(denial)}`
  const body = denial === undefined || first.body === '' ? [] : [onOneLine(first.body)]
  const none = denial === undefined && lines.length === 0 ? ['no rule matches'] : []
  const shown = [...none, ...lines, ...headers, ...body].map(line => `  ${line}`)
  return [`${subject} ${outcome}`, ...shown].join('\n')
}

/** The report for programs: each request by itself. */
export function plainTrial(trial: Trial) {
  const { file, results } = trial
  const { method, path, ip } = trial.request
  const denied = results.filter(denialOf).length
  return {
    file,
    request: { method, path, ip },
    allowed: results.length - denied,
    denied,
    results: results.map((result, index) => {
      const denial = denialOf(result)
      return {
        number: index + 1,
        outcome: denial === undefined ? 'allowed' : 'denied',
        denied_by: denial === undefined ? null : { type: denial.type, rule: denial.rule },
        // The status of a request that passes does not come from the limits.
        status: denial === undefined ? null : result.status,
        headers: valuesByName(limitHeadersOf(result)),
        body: denial === undefined ? null : result.body,
        rules: result.steps.map(step => ({
          type: step.type,
          rule: step.rule,
          key: step.key ?? null,
          count: step.count ?? null,
          description: stateOf(step, trial),
        })),
      }
    }),
  }
}

/** What denied a request; `undefined` for one that passed. */
function denialOf({ steps }: TrialResult): TraceStep | undefined {
  return steps.find(({ isDenied }) => isDenied)
}

/** The headers that limits add to the answer to a request that passed. */
const LIMIT_HEADERS = ['ratelimit', 'ratelimit-policy']

/** Headers that an answer can have without limits. */
const COMMON_HEADERS = [
  ...['cache-control', 'connection', 'content-length', 'content-security-policy', 'content-type'],
  ...['date', 'transfer-encoding', 'vary', 'x-content-type-options', 'x-request-id'],
]

function limitHeadersOf(result: TrialResult): readonly HeaderLine[] {
  const isPassed = denialOf(result) === undefined
  return result.headers.filter(([name]) => {
    const lowerCase = name.toLowerCase()
    return isPassed ? LIMIT_HEADERS.includes(lowerCase) : !COMMON_HEADERS.includes(lowerCase)
  })
}

/** The values of a repeated header are joined: RFC 9110 5.3. */
function valuesByName(headers: readonly HeaderLine[]): Readonly<Record<string, string>> {
  const values = new Map<string, string>()
  for (const [name, value] of headers) {
    const previous = values.get(name)
    values.set(name, previous === undefined ? value : `${previous}, ${value}`)
  }
  return Object.fromEntries(values)
}

/** As in `bans "login"`. */
function nameOf({ type, rule }: TraceStep): string {
  return `${kindOf(type)} ${JSON.stringify(rule)}`
}

function kindOf(type: NoticeType): RuleKind {
  return RULE_KINDS.find(kind => TYPE_OF_KIND[kind] === type) as RuleKind
}

/** A rule of any kind, with the keys that some kinds have. */
interface AnyRule {
  readonly isDryRun?: boolean
  readonly source?: { readonly name?: string; readonly by?: Key }
  readonly limit?: unknown
  readonly windowMs?: unknown
  readonly banMs?: number
  readonly deniesStrikes?: boolean
}

function ruleOf({ type, rule }: TraceStep, { limits }: Trial): AnyRule {
  const rules: readonly (AnyRule & { readonly name: string })[] = limits[kindOf(type)]
  return rules.find(({ name }) => name === rule) ?? {}
}

/** What a rule did, without the count. */
function stateOf(step: TraceStep, trial: Trial): string {
  const { type, count, isOver, isDenied, otherStatus, failure } = step
  const rule = ruleOf(step, trial)
  const refused = rule.isDryRun ? 'would be refused (dry run)' : 'refused'
  if ('failure' in step) {
    const message = failure instanceof Error ? failure.message : String(failure)
    return `lets it pass, because its function failed: ${textInWords(message)}`
  }
  if (otherStatus !== undefined) {
    return `matches, and does not count, because the answer is ${otherStatus}`
  }
  if (type === 'safelist') return 'matches: no other rule is asked'
  if (type === 'blocklist') return `matches: ${refused}`
  if (type === 'track' && rule.limit === undefined) return 'matches: reported'
  if (type === 'ban') return banInWords(step, { rule, refused, trial })
  if (count === undefined) return whyUncounted(rule, trial)
  if (!isOver) return 'matches'
  if (type === 'track') return 'matches over its limit: reported'
  const isLetPass = !isDenied && !rule.isDryRun
  return `matches over its limit: ${isLetPass ? 'its function lets it pass' : refused}`
}

function banInWords(
  { count, isBanned }: TraceStep,
  { rule, refused, trial }: { rule: AnyRule; refused: string; trial: Trial },
): string {
  const { deniesStrikes, limit, banMs = 0, isDryRun } = rule
  const dryRun = isDryRun ? ' (dry run)' : ''
  if (isBanned) return `denies a client that it has banned${dryRun}`
  const each = deniesStrikes ? `: ${refused}` : ''
  if (count === undefined) return `${whyUncounted(rule, trial)}${each}`
  if (count < Number(limit)) return `matches${each}`
  const banned = `the client ${isDryRun ? 'would be' : 'is'} banned for ${timeInWords(banMs)}`
  return `matches${deniesStrikes ? `${each}, and` : ':'} ${banned}${dryRun}`
}

function whyUncounted({ source }: AnyRule, { isCounting }: Trial): string {
  const why = isCounting ? `it has no key (${keyInWords(source?.by)})` : 'CACHE_STORE is none'
  return `matches, and does not count, because ${why}`
}

/** The count of a rule, or the counts up to `highest` of several requests. */
function countInWords(step: TraceStep, highest: number, trial: Trial): string {
  const { key, count } = step
  const { limit, windowMs } = ruleOf(step, trial)
  const client = key === undefined ? '' : ` for ${textInWords(key)}`
  if (count === undefined) return client && ` (${client.trim()})`
  const counts = highest > count ? `${count} to ${highest}` : `${count}`
  const isFixed = typeof limit === 'number' && typeof windowMs === 'number'
  return ` (${counts}${isFixed ? ` of ${limit} in ${timeInWords(windowMs)}` : ''}${client})`
}

function onOneLine(text: string): string {
  return text.replace(/\p{Cc}/gu, char => JSON.stringify(char).slice(1, -1))
}
