import type { BanControl } from '../../limits/ban-control.ts'
import type { RuleChanges } from '../../limits/limiter.ts'
import type { CheckReadiness } from '../health.ts'
import type { ServiceReport } from '../metrics/service-report.ts'

/** What the management port asks of the service. */
export interface Operations {
  report(): Promise<ServiceReport>
  readonly checks: CheckReadiness
  readonly bans: BanControl
  /** Puts the limits file in force again. A wrong file leaves the previous rules in force. The log has the result too. */
  reloadLimits(): Promise<ReloadResult>
}

export type ReloadResult =
  | { readonly outcome: 'reloaded'; readonly changes: RuleChanges }
  /** LIMITS_FILE is not set. */
  | { readonly outcome: 'no file' }
  | { readonly outcome: 'invalid'; readonly mistakes: readonly string[] }
  /** The file could not be put in force, and the previous rules stay. The log says why. */
  | { readonly outcome: 'failed' }
