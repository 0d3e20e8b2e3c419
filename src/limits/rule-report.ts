import type { NoticeType } from './notices.ts'

/** What one rule has done since the start. Kept over a reload if the rule keeps its type and name. */
export interface RuleReport {
  readonly type: NoticeType
  readonly rule: string
  readonly isDryRun: boolean
  /** Requests that the rule matched and, if it counts, counted. */
  readonly counted: number
  /** Of those, requests that the rule let pass, and not only because it is in dry run. */
  readonly passed: number
  /** Requests that the rule refused, with those of clients that it has banned. */
  readonly refused: number
  /** Requests that it would have refused if it were not in dry run. */
  readonly wouldRefuse: number
}

/** The limits as one process sees them. */
export interface LimitsReport {
  /** In the order in which requests meet them. */
  readonly rules: readonly RuleReport[]
  /** Bans in force. */
  readonly bans: number
  /** Where requests are counted. */
  readonly store: 'memory' | 'redis' | 'none'
  /** Whether that store can be reached; otherwise this process counts by itself. */
  readonly isStoreUp: boolean
}
