import type { Config } from '../config/settings.ts'
import type { CheckReadiness } from '../ops/health.ts'
import type { Operations } from '../ops/management/operations-router.ts'
import type { Metrics } from '../ops/metrics/create-metrics.ts'
import { createReporter, type ReportSources } from '../ops/metrics/service-report.ts'
import type { Clocks } from '../platform/clocks.ts'
import type { UserQuery } from '../users/user-repository.ts'
import type { UserRouterOptions } from '../users/user-router.ts'
import { describeWebhooks } from '../webhooks/describe-webhooks.ts'
import type { Opened } from './open-storage.ts'
import type { OwnLimits } from './own-limits.ts'

/** The storage keeps the total, so that no list counts. */
const FIRST_WITH_TOTAL: UserQuery = {
  ...{ sort: { by: 'id', descending: false }, filters: {}, words: [] },
  ...{ start: { offset: 0 }, limit: 1, withTotal: true },
}

/** Only with a management port: prom-client takes 12 MB. */
export async function openMetrics({ managementPort }: Config, { now }: Clocks) {
  if (managementPort === undefined) return undefined
  return (await import('../ops/metrics/create-metrics.ts')).createMetrics(now)
}

export interface OperationsOptions
  extends Pick<Opened, 'storage' | 'clocks'>,
    Pick<ReportSources, 'server' | 'passwords' | 'webhooks'>,
    UserRouterOptions {
  readonly checks: CheckReadiness
  readonly metrics: Metrics
  readonly limits: OwnLimits
  /** How many deletions the feed keeps. */
  readonly deletions: () => number
}

/** What the management port asks of the service. */
export function createOperations(options: OperationsOptions): Operations {
  const { storage, clocks, limits, users, changes, deletions, checks, metrics } = options
  return {
    ...createReporter({
      ...options,
      limits: limits.report,
      wholeLists: users.whole,
      feed: () => ({ ...changes.report(), deletions: deletions() }),
    }),
    ...{ clocks, checks, metrics, bans: limits.bans, users: { users, changes } },
    reloadLimits: limits.reload,
    readAnew: storage.readAnew,
    countUsers: async () => (await storage.users.list(FIRST_WITH_TOTAL)).total,
    describeWebhooks: async () =>
      describeWebhooks(await storage.webhooks.list(), storage.changes, clocks.now()),
  }
}
