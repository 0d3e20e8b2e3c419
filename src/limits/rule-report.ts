import type { RefusedClients } from './refused-clients.ts'
import type { RuleType } from './rules/compiled-rule.ts'

/** What one rule has done since the start. */
export interface RuleReport {
  readonly type: RuleType
  readonly rule: string
  readonly isDryRun: boolean
  /** Requests that the rule matched and, if it counts, counted. A request with several users counts as several. */
  readonly counted: number
  /** Of those, requests that the rule let pass. Not those that pass only because it is in dry run. */
  readonly passed: number
  /** Requests that the rule refused, with those of clients that it has banned. */
  readonly refused: number
  /** Requests that it would have refused if it were not in dry run. */
  readonly wouldRefuse: number
  /** Whom the rule has refused, also after this report; `undefined` without a management port. */
  readonly clients?: RefusedClients | undefined
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
