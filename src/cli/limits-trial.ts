import { METHODS } from 'node:http'
import { isIP } from 'node:net'
import pino from 'pino'
import { type Environment, loadConfig } from '../config.ts'
import { type LimitsEvent, watchLimits } from '../limits/limits-watch.ts'
import { textInWords } from '../limits/rule-words.ts'
import { durationMs } from '../limits/rules-schema.ts'
import { openService } from '../wiring/open-service.ts'
import { EXIT, UsageError } from './command-context.ts'
import { readLimitsFile } from './limits.ts'
import { print } from './print.ts'
import { createTrialReport, type TrialOutcome } from './trial-report.ts'
import { problemWithHeader, sendTrial, type TrialRequest } from './trial-request.ts'

/** The options of `limits test` as they were given. */
export interface TrialOptions {
  readonly method: string
  readonly path: string
  readonly ip: string
  readonly header: readonly string[]
  readonly body?: string
  readonly times: string
  readonly every: string
}

const MAX_TIMES = 10_000

/**
 * Prints what the rules of a file would do to a request, and to repeated ones: sends them to the service itself, with
 * nothing in its database, nothing counted yet, and a clock that moves by `every` between two of them.
 */
export async function testLimitsFile(
  environment: Environment,
  { file, options }: { readonly file: string; readonly options: TrialOptions },
): Promise<number> {
  const request = parseRequest(options)
  const times = parseTimes(options.times)
  const everyMs = parseEvery(options.every)
  const config = loadConfig(environment)
  const limits = await readLimitsFile(file)
  const inMemory = { url: ':memory:', path: ':memory:' }
  let nowMs = Date.now()
  let events: LimitsEvent[] = []
  const lines = createLines()
  const watch = watchLimits(event => events.push(event))
  const service = await openService({
    config: { ...config, database: inMemory, limitsFile: file, trustProxy: false },
    log: pino({ level: 'info', base: null }, lines),
    now: () => nowMs,
    monotonicNow: () => nowMs,
    watch,
  })
  const report = createTrialReport({
    file,
    limits,
    request,
    isCounting: config.cacheStore !== 'none',
  })
  try {
    for (let sent = 0; sent < times; sent++) {
      events = []
      const isOver = lines.untilRequest()
      const answer = await sendTrial(service.server, request)
      const outcome: TrialOutcome = { answer, events, lines: await isOver }
      report.add(outcome)
      nowMs += everyMs
    }
  } finally {
    watch.end()
    await service.close()
  }
  await print(report.text())
  return EXIT.done
}

/** The log of the service, whose line about a request is the last that is written for it. */
function createLines() {
  let lines: Record<string, unknown>[] = []
  let onRequest = (_lines: readonly Record<string, unknown>[]) => {}
  return {
    write: (text: string) => {
      const line: Record<string, unknown> = JSON.parse(text)
      lines.push(line)
      if (line.msg === 'request' || line.msg === 'request refused') onRequest(lines)
    },
    untilRequest: () => {
      lines = []
      return new Promise<readonly Record<string, unknown>[]>(resolve => {
        onRequest = resolve
      })
    },
  }
}

function parseRequest({ method, path, ip, header, body }: TrialOptions): TrialRequest {
  const upperCase = method.toUpperCase()
  if (!METHODS.includes(upperCase) || upperCase === 'CONNECT') {
    throw wrong('--method', method, 'a method such as GET')
  }
  if (!/^\/[\x21-\x7e]*$/.test(path)) {
    throw wrong('--path', path, 'a path that begins with /, with a query or not, percent-encoded')
  }
  if (isIP(ip) === 0) throw wrong('--ip', ip, 'an address such as 198.51.100.7')
  return { method: upperCase, path, ip, headers: header.map(parseHeader), body }
}

function parseHeader(text: string): readonly [string, string] {
  const colon = text.indexOf(':')
  const name = text.slice(0, Math.max(colon, 0)).trim()
  const value = text.slice(colon + 1).trim()
  const problem = problemWithHeader(name, value)
  if (problem !== undefined)
    throw new UsageError(`--header was ${JSON.stringify(text)}; ${problem}`)
  return [name, value]
}

function parseTimes(text: string): number {
  const times = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (times < 1 || times > MAX_TIMES) {
    throw wrong('--times', text, `a whole number from 1 to ${MAX_TIMES}`)
  }
  return times
}

function parseEvery(text: string): number {
  const ms = text === '0' ? 0 : durationMs(text)
  if (ms === undefined) throw wrong('--every', text, '0, or a time such as "10 seconds"')
  return ms
}

function wrong(option: string, value: string, mayBe: string): UsageError {
  return new UsageError(`${option} was ${textInWords(value)}; it may be ${mayBe}`)
}
