import { setImmediate } from 'node:timers/promises'
import pino from 'pino'
import { SCOPES } from '../../access/api-key.ts'
import { durationMs } from '../../config/values.ts'
import type { RuleReport } from '../../limits/rule-report.ts'
import { createClocks } from '../../platform/clocks.ts'
import { openService, type ServiceOptions } from '../../service.ts'
import { EMPTY_DATABASE } from '../../wiring/engines.ts'
import { readConfig } from '../terminal/read-config.ts'
import {
  EXIT,
  type JsonFlags,
  notify,
  type Outcome,
  type Terminal,
  textInWords,
  wrongValue,
} from '../terminal/terminal.ts'
import { readLimitsFile } from './check-limits.ts'
import {
  parseRequest,
  type RequestOptions,
  sendWithin,
  type TestedRequest,
} from './tested-request.ts'

/** The options of `limits test` as they were given. */
export interface TestOptions extends RequestOptions, JsonFlags {
  readonly times: string
  readonly every: string
  readonly expect?: Expectation
}

/** `allowed` expects every request to pass, `denied` the last one to be denied: those before it fill the window. */
type Expectation = 'allowed' | 'denied'

const MAX_TIMES = 10_000

/**
 * What the rules of a file would do with a request that is sent once or several times. It goes to the service itself,
 * with an empty database and no counts. The clock of the service advances by `every` between two requests. With `expect`, the
 * exit code says whether the outcome is the expected one.
 */
export async function testLimitsFile(
  terminal: Terminal,
  file: string,
  options: TestOptions,
): Promise<Outcome> {
  const request = parseRequest(options)
  const times = parseTimes(options.times)
  const everyMs = parseEvery(options.every)
  const config = readConfig(terminal)
  const limits = await readLimitsFile(file)
  const log = pino({ level: 'error' }, { write: line => notify(terminal, errorInWords(line)) })
  const results = await sendAll({ config, limits, log }, request, { times, everyMs })
  const denied = results.filter(({ denied_by }) => denied_by !== null).length
  const problem = options.expect && whyUnexpected(options.expect, results)
  if (problem !== undefined) notify(terminal, problem)
  return {
    lines: results.map(resultInWords),
    json: { file, allowed: results.length - denied, denied, results },
    exitCode: problem === undefined ? EXIT.done : EXIT.foundFaults,
  }
}

/** What the limits did with one request, as `--json` prints it. */
type TestResult = ReturnType<typeof toResult>

/** Sends a request several times to a service with an empty database. Its clock advances between two requests. */
async function sendAll(
  { config, ...options }: ServiceOptions,
  request: TestedRequest,
  { times, everyMs }: { readonly times: number; readonly everyMs: number },
): Promise<readonly TestResult[]> {
  // Redis has its own clock, and counts for services that run.
  const cacheStore = config.cacheStore === 'none' ? 'none' : 'memory'
  const { key: name } = request
  let nowMs = Date.now()
  const now = () => nowMs
  const service = await openService({
    ...options,
    config: {
      ...config,
      cacheStore,
      database: EMPTY_DATABASE,
      trustProxy: false,
      allowedHosts: '*',
      apiKeys: 'off',
      managementPort: undefined,
    },
    clocks: createClocks({ now, monotonicNow: now, uptimeNow: now }),
    ...(name !== undefined && { keys: { recognise: () => ({ name, scopes: new Set(SCOPES) }) } }),
  })
  const rulesNow = () => service.limits.report()?.rules ?? []
  const results: TestResult[] = []
  try {
    for (let number = 1; number <= times; number++) {
      const before = rulesNow()
      const answer = await sendWithin(service.server, request)
      // Some is counted when the response is closed.
      await setImmediate()
      results.push(toResult(number, answer, outcomesOf(before, rulesNow())))
      nowMs += everyMs
    }
  } finally {
    await service.close()
  }
  return results
}

const OUTCOMES = [
  ['refused', 'refused'],
  ['wouldRefuse', 'would_refuse'],
  ['passed', 'passed'],
] as const

/** What each rule did between two reports. Without the rules that did nothing. */
function outcomesOf(before: readonly RuleReport[], after: readonly RuleReport[]) {
  return after.flatMap((now, index) => {
    const { type, rule } = now
    const earlier = before[index] ?? now
    const outcome = OUTCOMES.find(([number]) => now[number] > earlier[number])?.[1]
    return outcome === undefined ? [] : [{ type, rule, outcome }]
  })
}

function toResult(
  number: number,
  { status, headers, body }: Awaited<ReturnType<typeof sendWithin>>,
  rules: ReturnType<typeof outcomesOf>,
) {
  const denial = rules.find(({ outcome }) => outcome === 'refused')
  return {
    number,
    outcome: denial === undefined ? 'allowed' : 'denied',
    denied_by: denial === undefined ? null : { type: denial.type, rule: denial.rule },
    // The status and the body of a request that passes do not come from the limits.
    status: denial === undefined ? null : status,
    headers,
    body: denial === undefined ? null : body,
    rules,
  }
}

function resultInWords({ number, status, rules }: TestResult): string {
  const outcome = status === null ? 'passes' : `is refused with ${status}`
  const words = rules.map(rule => `${nameOf(rule)} ${rule.outcome.replace('_', ' ')}`)
  return `request ${number} ${outcome}: ${words.join(', ') || 'no rule counts it'}`
}

/** Why an expectation is not met, in one line; `undefined` if it is. */
function whyUnexpected(
  expectation: Expectation,
  results: readonly TestResult[],
): string | undefined {
  if (expectation === 'denied') {
    if (results.at(-1)?.outcome === 'denied') return undefined
    return `expected denied, but request ${results.length}, the last one, is allowed`
  }
  for (const { number, status, denied_by } of results) {
    if (denied_by !== null) {
      return `expected allowed, but request ${number} is denied with ${status} by ${nameOf(denied_by)}`
    }
  }
  return undefined
}

function nameOf({ type, rule }: Pick<RuleReport, 'type' | 'rule'>): string {
  return `${type} ${JSON.stringify(rule)}`
}

/** What went wrong in the service, such as a function of a rule, by a line of its log. */
function errorInWords(line: string): string {
  const { msg, type, rule, err } = JSON.parse(line)
  const place = type === undefined ? '' : `${nameOf({ type, rule })}: `
  return err === undefined ? place + msg : `${place}${msg}: ${textInWords(err.message)}`
}

function parseTimes(text: string): number {
  const times = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (times < 1 || times > MAX_TIMES) {
    throw wrongValue('--times', text, `a whole number from 1 to ${MAX_TIMES}`)
  }
  return times
}

function parseEvery(text: string): number {
  const ms = text === '0' ? 0 : durationMs(text)
  if (ms === undefined) throw wrongValue('--every', text, '0, or a time such as "10 seconds"')
  return ms
}
