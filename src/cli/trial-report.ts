import type { LimitsEvent } from '../limits/limits-watch.ts'
import { textInWords } from '../limits/rule-words.ts'
import type { CheckedLimits } from '../limits/rules-schema.ts'
import { createRulePartWords, partsOf, type RulePart } from './rule-parts.ts'
import type { TrialAnswer, TrialRequest } from './trial-request.ts'

/** What came of one request. */
export interface TrialOutcome {
  readonly answer: TrialAnswer
  readonly events: readonly LimitsEvent[]
  /** What the service logged about it, its own line last. */
  readonly lines: readonly Readonly<Record<string, unknown>>[]
}

/** Gathers outcomes, those that are alike in one paragraph. */
export interface TrialReport {
  add(outcome: TrialOutcome): void
  text(): string
}

export interface TrialReportOptions {
  readonly file: string
  readonly limits: CheckedLimits
  readonly request: TrialRequest
  readonly isCounting: boolean
}

/** Requests one after another to which the same rules did the same. */
interface Paragraph {
  /** The same for what is told together. */
  readonly id: string
  readonly verdict: string | undefined
  readonly answer: TrialAnswer
  /** Of the first of them. */
  readonly parts: readonly RulePart[]
  /** What each rule has counted to, by its name. */
  readonly mostCounted: Map<string, number>
  count: number
}

/** Of the answer to a request that passed, these are of the limits. */
const LIMIT_HEADERS = ['ratelimit', 'ratelimit-policy']

/** What every answer bears says nothing of limits. */
const COMMON_HEADERS = [
  ...['cache-control', 'connection', 'content-length', 'content-security-policy', 'content-type'],
  ...['date', 'transfer-encoding', 'vary', 'x-content-type-options', 'x-request-id'],
]

export function createTrialReport(options: TrialReportOptions): TrialReport {
  const { file, limits, request, isCounting } = options
  const words = createRulePartWords(limits, isCounting)
  const paragraphs: Paragraph[] = []
  const failures = new Map<string, string>()

  /** The rule that refused a request, as its line of the log names it; `undefined` where none did. */
  function verdictOf({ lines }: TrialOutcome): string | undefined {
    const { type, rule, dryRun } = lines.at(-1) ?? {}
    if (type === undefined || dryRun === true) return undefined
    return words.name({ type: type as RulePart['type'], rule: String(rule) })
  }

  /** A function that failed once is taken to go on failing, because that is logged ten times a second at most. */
  function withFailures(parts: readonly RulePart[]): readonly RulePart[] {
    return parts.map(part => {
      const name = words.name(part)
      if (part.failure !== undefined) failures.set(name, part.failure)
      return part.count === undefined ? { ...part, failure: failures.get(name) } : part
    })
  }

  function add(outcome: TrialOutcome): void {
    const { answer, events, lines } = outcome
    const parts = withFailures(partsOf(events, lines))
    const verdict = verdictOf(outcome)
    const states = parts.map(part => [words.name(part), words.state(part), part.key])
    const id = JSON.stringify([verdict, verdict && answer.status, states])
    let last = paragraphs.at(-1)
    if (last?.id !== id) {
      last = { id, verdict, answer, parts, mostCounted: new Map(), count: 0 }
      paragraphs.push(last)
    }
    last.count++
    for (const part of parts) {
      const name = words.name(part)
      last.mostCounted.set(name, Math.max(part.count ?? 0, last.mostCounted.get(name) ?? 0))
    }
  }

  function inWords(paragraph: Paragraph, from: number): string {
    const { verdict, answer, parts, mostCounted, count } = paragraph
    const lines = parts.map(part => {
      const name = words.name(part)
      return `${name} ${words.state(part)}${words.count(part, mostCounted.get(name))}`
    })
    const who = count === 1 ? `request ${from}` : `requests ${from} to ${from + count - 1}`
    if (verdict === undefined) {
      const told = answer.headers.filter(([name]) => LIMIT_HEADERS.includes(name.toLowerCase()))
      if (lines.length === 0) lines.push('no rule matches')
      const passes = `${who} ${count === 1 ? 'passes' : 'pass'} the limits`
      return [passes, ...[...lines, ...told.map(headerLine)].map(indented)].join('\n')
    }
    const told = answer.headers.filter(([name]) => !COMMON_HEADERS.includes(name.toLowerCase()))
    const body = answer.body === '' ? [] : [onOneLine(answer.body)]
    const isRefused = `${who} ${count === 1 ? 'is' : 'are'} refused with ${answer.status} by ${verdict}`
    return [isRefused, ...[...lines, ...told.map(headerLine), ...body].map(indented)].join('\n')
  }

  return {
    add,
    text: () => {
      const { method, path, ip } = request
      const texts = [`${method} ${path} from ${ip}, by the rules of ${textInWords(file)}`]
      let from = 1
      for (const paragraph of paragraphs) {
        texts.push(inWords(paragraph, from))
        from += paragraph.count
      }
      return texts.join('\n\n')
    },
  }
}

function headerLine([name, value]: readonly [string, string]): string {
  return `${name}: ${value}`
}

function indented(line: string): string {
  return `  ${line}`
}

function onOneLine(text: string): string {
  return text.replace(/\p{Cc}/gu, char => JSON.stringify(char).slice(1, -1))
}
