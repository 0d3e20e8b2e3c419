import type { BanOrder } from '../../limits/ban-orders.ts'
import type { Ban, BanPage, BanQuery, BanSelection } from '../../limits/ban-store.ts'
import type { RuleChanges } from '../../limits/rule-changes.ts'
import type { ServiceReport } from '../metrics/service-report.ts'

/** What the management port asks of the service. */
export interface Operations {
  report(): Promise<ServiceReport>
  /** What must work for the service to be ready, by name. */
  checks(): Promise<ReadinessChecks>
  /** Bans in force, ordered by rule and client. */
  listBans(query: BanQuery): Promise<BanPage>
  /** Bans a client, from the next request on. Throws `validation_failed`. */
  addBan(order: BanOrder): Promise<Ban>
  /** Lifts bans, from the next request on. Returns how many were in force. */
  liftBans(selection: BanSelection): Promise<number>
  /** Puts the limits file in force again. A wrong file leaves the previous rules in force. The log has the result too. */
  reloadLimits(): Promise<ReloadResult>
}

export interface ReadinessChecks {
  readonly isReady: boolean
  readonly checks: Readonly<Record<string, { readonly status: 'ok' | 'local' | 'unavailable' }>>
}

export type ReloadResult =
  | { readonly outcome: 'reloaded'; readonly changes: RuleChanges }
  /** LIMITS_FILE is not set. */
  | { readonly outcome: 'no file' }
  | { readonly outcome: 'invalid'; readonly mistakes: readonly string[] }
  /** The file could not be put in force, and the previous rules stay. The log says why. */
  | { readonly outcome: 'failed' }
