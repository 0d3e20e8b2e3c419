import { request as httpRequest, METHODS, validateHeaderName, validateHeaderValue } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import pino from 'pino'
import { API_KEY_NAME_RULE, isApiKeyName, SCOPES } from '../../access/api-key.ts'
import { createClocks } from '../../clocks.ts'
import type { Config } from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'
import type { TraceStep } from '../../limits/notices.ts'
import { textInWords } from '../../limits/rules/describe-rules.ts'
import { durationMs } from '../../limits/rules/rule-values.ts'
import type { HttpServer } from '../../server/server.ts'
import { openService, type ServiceOptions } from '../../service.ts'
import {
  EXIT,
  type JsonFlags,
  notify,
  print,
  printJson,
  readConfig,
  type Terminal,
  UsageError,
} from '../terminal/terminal.ts'
import { readLimitsFile } from './check-limits.ts'
import {
  type Expectation,
  type HeaderLine,
  plainTrial,
  reportTrial,
  type TrialResult,
  whyUnexpected,
} from './trial-report.ts'

/** The options of `limits test` as they were given. */
export interface TrialOptions extends JsonFlags {
  readonly method: string
  readonly path: string
  readonly ip: string
  readonly header: readonly string[]
  readonly key?: string
  readonly body?: string
  readonly times: string
  readonly every: string
  readonly expect?: Expectation
}

const MAX_TIMES = 10_000

/**
 * Prints what the rules of a file would do with a request that is sent once or several times. It goes to the service itself,
 * with an empty database and no counts. The clock of the service advances by `every` between two requests. With `expect`, the
 * exit code says whether the outcome is the expected one.
 */
export async function testLimitsFile(
  terminal: Terminal,
  { file, options }: { readonly file: string; readonly options: TrialOptions },
): Promise<number> {
  const request = parseRequest(options)
  const times = parseTimes(options.times)
  const everyMs = parseEvery(options.every)
  const config = readConfig(terminal)
  const limits = await readLimitsFile(file)
  const results = await sendAll({ config, file, request, key: options.key, times, everyMs })
  const trial = { file, limits, request, isCounting: config.cacheStore !== 'none', results }
  await (options.json
    ? printJson(terminal, plainTrial(trial))
    : print(terminal, reportTrial(trial)))
  const problem = options.expect && whyUnexpected(options.expect, results)
  if (problem === undefined) return EXIT.done
  notify(terminal, problem)
  return EXIT.foundFaults
}

/** A request to send. */
interface TrialRequest {
  readonly method: string
  /** With the query string. */
  readonly path: string
  /** The client's address. */
  readonly ip: string
  readonly headers: readonly HeaderLine[]
  readonly body: string | undefined
}

interface Repeated {
  readonly config: Config
  readonly file: string
  readonly request: TrialRequest
  /** The name of the API key that the request has. */
  readonly key: string | undefined
  readonly times: number
  readonly everyMs: number
}

/** Sends a request several times to a service with an empty database. Its clock advances between two requests. */
async function sendAll(repeated: Repeated): Promise<readonly TrialResult[]> {
  const { config, file, request, key, times, everyMs } = repeated
  const inMemory = { kind: 'sqlite', url: ':memory:', path: ':memory:' } as const
  // Redis has its own clock, and counts for services that run.
  const cacheStore = config.cacheStore === 'none' ? 'none' : 'memory'
  let nowMs = Date.now()
  const steps = new Map<string, TraceStep>()
  const service = await openService({
    config: {
      ...config,
      cacheStore,
      database: inMemory,
      limitsFile: file,
      trustProxy: false,
      allowedHosts: '*',
      apiKeys: 'off',
      managementPort: undefined,
    },
    log: pino({ level: 'silent' }),
    clocks: createClocks({ now: () => nowMs, monotonicNow: () => nowMs }),
    trace: step => {
      const rule = `${step.type} ${step.rule}`
      steps.set(rule, { ...steps.get(rule), ...step })
    },
    ...(key !== undefined && { keys: createTrialKey(key) }),
  })
  const results: TrialResult[] = []
  try {
    for (let sent = 0; sent < times; sent++) {
      steps.clear()
      const answer = await sendTrial(service.server, request)
      results.push({ ...answer, steps: [...steps.values()] })
      nowMs += everyMs
    }
  } finally {
    await service.close()
  }
  return results
}

/** A key of this name, with all scopes, whatever a request presents. */
function createTrialKey(name: string): NonNullable<ServiceOptions['keys']> {
  const key = { name, scopes: new Set(SCOPES) }
  return { recognise: () => key }
}

function parseRequest({ method, path, ip, header, key, body }: TrialOptions): TrialRequest {
  const upperCase = method.toUpperCase()
  if (!METHODS.includes(upperCase) || upperCase === 'CONNECT') {
    throw wrong('--method', method, 'a method such as GET')
  }
  if (!/^\/[\x21-\x7e]*$/.test(path)) {
    throw wrong('--path', path, 'a path that begins with /, with a query or not, percent-encoded')
  }
  if (isIP(ip) === 0) throw wrong('--ip', ip, 'an address such as 198.51.100.7')
  const headers = header.map(parseHeader)
  return { method: upperCase, path, ip, headers: [...headers, ...keyHeader(key, headers)], body }
}

/** The header of a request with a key, of which only the name matters. */
function keyHeader(
  key: string | undefined,
  others: TrialRequest['headers'],
): TrialRequest['headers'] {
  if (key === undefined) return []
  if (!isApiKeyName(key)) throw wrong('--key', key, API_KEY_NAME_RULE)
  if (others.some(([name]) => name.toLowerCase() === 'authorization')) {
    throw new UsageError('--key sets the header Authorization itself')
  }
  return [['Authorization', 'Bearer key']]
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

/** These frame the message and are set by the command. */
const OWN_HEADERS = ['connection', 'content-length', 'expect', 'transfer-encoding', 'upgrade']

const TIMEOUT_MS = 10_000

const NO_ANSWER =
  'the request got no answer within 10 seconds: a function under `with` does not answer'

/** Why a header cannot be sent; `undefined` if it can. */
function problemWithHeader(name: string, value: string): string | undefined {
  if (OWN_HEADERS.includes(name.toLowerCase())) return 'the command sets this one itself'
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return undefined
  } catch {
    return 'it may be a header such as "Accept: text/html"'
  }
}

/** Sends a request to a server that does not listen, within this process. Rejects after 10 seconds without an answer. */
function sendTrial(server: HttpServer, trial: TrialRequest): Promise<Omit<TrialResult, 'steps'>> {
  const { method, path, ip, body } = trial
  const [client, end] = duplexPair()
  const traits = { remoteAddress: ip, destroySoon: () => end.end() }
  server.accept(Object.assign(end, traits) as unknown as Socket)
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new OperatorError([NO_ANSWER])), TIMEOUT_MS)
    const headers = allHeaders(trial).flat()
    const createConnection = () => client
    const sent = httpRequest({ method, path, headers, createConnection })
    sent.on('error', reject).on('response', response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk)).on('error', reject)
      response.on('end', () => {
        const { statusCode: status = 0, rawHeaders } = response
        const received = Array.from({ length: rawHeaders.length / 2 }, (_, index) => {
          return [rawHeaders[2 * index] ?? '', rawHeaders[2 * index + 1] ?? ''] as const
        })
        clearTimeout(timer)
        client.end()
        resolve({ status, headers: received, body: Buffer.concat(chunks).toString() })
      })
    })
    sent.end(body)
  })
}

function allHeaders({ method, headers, body }: TrialRequest) {
  const has = (name: string) => headers.some(([given]) => given.toLowerCase() === name)
  const takesBody = body !== undefined || ['POST', 'PUT', 'PATCH'].includes(method)
  return [
    ...(has('host') ? [] : [['Host', 'localhost'] as const]),
    ...headers,
    ...(body === undefined || has('content-type') ? [] : [['Content-Type', 'application/json']]),
    ...(takesBody ? [['Content-Length', `${Buffer.byteLength(body ?? '')}`]] : []),
    ['Connection', 'close'],
  ]
}
