import type { NoticeType } from './notices.ts'

/**
 * What one rule did with one request. A rule that matches is traced once; a later step of the same rule and request adds to
 * the earlier one.
 */
export interface TraceStep {
  readonly type: NoticeType
  readonly rule: string
  /** What the request is counted by; `undefined` if it is not counted. */
  readonly key?: string | undefined
  readonly count?: number | undefined
  /** Whether the count is over the rule's limit. */
  readonly isOver?: boolean
  /** Whether the client was banned before this request. */
  readonly isBanned?: boolean
  /** Whether the rule denied the request. */
  readonly isDenied?: boolean
  /** The status of the answer, if the rule counts only others. */
  readonly otherStatus?: number
  /** What a function of the rule threw. */
  readonly failure?: unknown
}

/** Called for each rule that matches a request or whose function fails, before the response is sent. */
export type LimitsTrace = (step: TraceStep) => void
