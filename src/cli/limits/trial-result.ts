import type { TraceStep } from '../../limits/notices.ts'
import type { TrialAnswer } from './trial-request.ts'

/** What the limits did with one request. */
export interface TrialResult {
  /** The rule that denied it; `undefined` for a request that passed. */
  readonly deniedBy: TraceStep | undefined
  /** What each rule did that matched or failed, in the order in which the rules ran. */
  readonly steps: readonly TraceStep[]
  readonly status: number
  /** The headers of the answer that come from limits. */
  readonly headers: TrialAnswer['headers']
  readonly body: string
}

/** The headers that limits add to the answer to a request that passed. */
const LIMIT_HEADERS = ['ratelimit', 'ratelimit-policy']

/** Headers that an answer can have without limits. */
const COMMON_HEADERS = [
  ...['cache-control', 'connection', 'content-length', 'content-security-policy', 'content-type'],
  ...['date', 'transfer-encoding', 'vary', 'x-content-type-options', 'x-request-id'],
]

export function createTrialResult(answer: TrialAnswer, steps: readonly TraceStep[]): TrialResult {
  const { status, body } = answer
  const deniedBy = steps.find(({ isDenied }) => isDenied)
  const isLimitHeader = (name: string) =>
    deniedBy === undefined ? LIMIT_HEADERS.includes(name) : !COMMON_HEADERS.includes(name)
  const headers = answer.headers.filter(([name]) => isLimitHeader(name.toLowerCase()))
  return { deniedBy, steps, status, headers, body }
}
