import type { CheckedLimits } from '../../limits/rules/compiled-rules.ts'
import { textInWords } from '../../limits/rules/rule-words.ts'
import { createStepWords, type StepWords } from './rule-trace.ts'
import type { TrialRequest } from './trial-request.ts'
import type { TrialResult } from './trial-result.ts'

/** The same request, sent once or several times. */
export interface Trial {
  readonly file: string
  readonly limits: CheckedLimits
  readonly request: TrialRequest
  readonly isCounting: boolean
  /** One for each request, in order. */
  readonly results: readonly TrialResult[]
}

/** The report for people. Consecutive requests that the rules treated alike share a paragraph. */
export function reportTrial({ file, limits, request, isCounting, results }: Trial): string {
  const words = createStepWords(limits, isCounting)
  const { method, path, ip } = request
  const title = `${method} ${path} from ${ip}, by the rules of ${textInWords(file)}`
  let end = 0
  const paragraphs = groupAlike(results, words).map(group => {
    end += group.length
    return describeGroup(group, end, words)
  })
  return [title, ...paragraphs].join('\n\n')
}

function groupAlike(
  results: readonly TrialResult[],
  words: StepWords,
): readonly (readonly TrialResult[])[] {
  const groups: TrialResult[][] = []
  let lastId = ''
  for (const result of results) {
    const { deniedBy, steps, status } = result
    const states = steps.map(step => [words.name(step), words.state(step), step.key])
    const id = JSON.stringify([deniedBy && [words.name(deniedBy), status], states])
    if (id === lastId) groups.at(-1)?.push(result)
    else groups.push([result])
    lastId = id
  }
  return groups
}

/** A paragraph about consecutive requests, the last of which has the number `end`. Shows the response to the first. */
function describeGroup(group: readonly TrialResult[], end: number, words: StepWords): string {
  const [first] = group as readonly [TrialResult, ...TrialResult[]]
  const isOne = group.length === 1
  const subject = isOne ? `request ${end}` : `requests ${end - group.length + 1} to ${end}`
  const lines = first.steps.map((step, index) => {
    const highest = Math.max(...group.map(({ steps }) => steps[index]?.count ?? 0))
    return `${words.name(step)} ${words.state(step)}${words.count(step, highest)}`
  })
  const { deniedBy, status, headers, body } = first
  const headerLines = headers.map(([name, value]) => `${name}: ${value}`)
  if (deniedBy === undefined) {
    const shown = [...(lines.length === 0 ? ['no rule matches'] : lines), ...headerLines]
    return [`${subject} ${isOne ? 'passes' : 'pass'} the limits`, ...shown.map(indent)].join('\n')
  }
  const refusal = `${isOne ? 'is' : 'are'} refused with ${status} by ${words.name(deniedBy)}`
  const shown = [...lines, ...headerLines, ...(body === '' ? [] : [onOneLine(body)])]
  return [`${subject} ${refusal}`, ...shown.map(indent)].join('\n')
}

/** The report for programs: each request by itself. */
export function plainTrial({ file, limits, request, isCounting, results }: Trial) {
  const words = createStepWords(limits, isCounting)
  const { method, path, ip } = request
  return {
    file,
    request: { method, path, ip },
    allowed: results.filter(({ deniedBy }) => deniedBy === undefined).length,
    denied: results.filter(({ deniedBy }) => deniedBy !== undefined).length,
    results: results.map(({ deniedBy, steps, status, headers, body }, index) => ({
      number: index + 1,
      outcome: deniedBy === undefined ? 'allowed' : 'denied',
      denied_by: deniedBy === undefined ? null : { type: deniedBy.type, rule: deniedBy.rule },
      // The status of a request that passes does not come from the limits.
      status: deniedBy === undefined ? null : status,
      headers: valuesByName(headers),
      body: deniedBy === undefined ? null : body,
      rules: steps.map(step => ({
        type: step.type,
        rule: step.rule,
        key: step.key ?? null,
        count: step.count ?? null,
        description: words.state(step),
      })),
    })),
  }
}

/** The values of a repeated header are joined: RFC 9110 5.3. */
function valuesByName(headers: TrialResult['headers']): Readonly<Record<string, string>> {
  const values = new Map<string, string>()
  for (const [name, value] of headers) {
    const previous = values.get(name)
    values.set(name, previous === undefined ? value : `${previous}, ${value}`)
  }
  return Object.fromEntries(values)
}

function indent(line: string): string {
  return `  ${line}`
}

function onOneLine(text: string): string {
  return text.replace(/\p{Cc}/gu, char => JSON.stringify(char).slice(1, -1))
}
