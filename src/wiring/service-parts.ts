import { type KeyRing, openKeyRing } from '../access/key-ring.ts'
import type { Config } from '../config/settings.ts'
import { type BanControl, createBanControl } from '../limits/kinds/ban-control.ts'
import type { CheckedLimits } from '../limits/kinds/kinds.ts'
import type { Limiter, RuleChanges } from '../limits/kinds/limiter.ts'
import type { LimitsReport } from '../limits/rule-report.ts'
import type { Operations } from '../ops/management/operations-router.ts'
import type { Metrics } from '../ops/metrics/create-metrics.ts'
import { createReporter, type ReportSources } from '../ops/metrics/service-report.ts'
import type { Clocks } from '../platform/clocks.ts'
import type { ChangeFeed } from '../users/change-feed.ts'
import { FIRST_WITH_TOTAL } from '../users/user-repository.ts'
import type { UserRouterOptions } from '../users/user-router.ts'
import { describeWebhooks } from '../webhooks/describe-webhooks.ts'
import type { WebhookRunner } from '../webhooks/webhook-runner.ts'
import { engineOf } from './engines.ts'
import type { Opened } from './open-storage.ts'

/** The API keys of a service that requires them. Rejects when they cannot be read. */
export async function openKeys({ config, log, clocks, storage }: Opened): Promise<KeyRing> {
  const fail = (message: string) => (err: unknown) => log.error({ err }, message)
  const ring = await storage.untilReachable(() =>
    openKeyRing({
      ...clocks,
      store: storage.apiKeys,
      onChange: (change, { name, scopes, expiresAt }) => {
        const expires = expiresAt === Infinity ? undefined : new Date(expiresAt).toISOString()
        log.info({ key: name, scopes: [...scopes], expires }, `API key ${change}`)
      },
      onReadFailure: fail('cannot refresh API keys, keeping those already loaded'),
      onRecordFailure: fail('cannot record when API keys were used'),
    }),
  )
  if (ring.isEmpty()) {
    const hint = engineOf(config.database).isInMemory
      ? 'a database in memory can have none'
      : 'make one with keys create'
    log.warn(`API_KEYS is required, but there is no key: ${hint}`)
  }
  return ring
}

/** The limits of a service, or what it has without rules. */
export interface OwnLimits {
  /** `undefined` without rules. */
  readonly limiter?: Limiter
  /** For operators. */
  readonly bans: BanControl
  /** Whether this process counts alone because the shared counters cannot be reached; `undefined` without rules. */
  readonly isCountingLocally?: () => boolean
  /** What the limits have done since the start; `undefined` without rules. */
  report(): LimitsReport | undefined
  /** Puts LIMITS_FILE in force again, as `Operations` say. */
  reload(): Promise<RuleChanges | undefined>
  close(): Promise<void>
}

/** The rules of LIMITS_FILE; `undefined` without one. Throws `OperatorError`. */
export async function readOwnRules({ limitsFile, cacheStore }: Config) {
  // Redis is opened even without rules: a wrong password then stops this start, not the first one with rules.
  if (limitsFile === undefined && cacheStore !== 'redis') return undefined
  return (await import('./open-limits.ts')).readLimits(limitsFile)
}

/** Opens the limits with `rules`, and none without them. */
export async function openOwnLimits(
  opened: Opened,
  rules: CheckedLimits | undefined,
): Promise<OwnLimits> {
  const { config, log, clocks, storage } = opened
  const ignore = async () => {
    log.info('reload ignored: LIMITS_FILE is not set')
    return undefined
  }
  if (rules === undefined) {
    return {
      bans: createBanControl({ banStore: storage.bans, wallNow: clocks.now }),
      report: () => undefined,
      reload: ignore,
      close: async () => {},
    }
  }
  // Imported only where there are rules: the list of public suffixes takes 5 MB and 50 ms of a start.
  const { openLimits } = await import('./open-limits.ts')
  const { reload, ...limits } = await openLimits({ ...opened, limits: rules })
  const { limitsFile } = config
  return { ...limits, reload: limitsFile === undefined ? ignore : () => reload(limitsFile) }
}

const NO_WEBHOOKS: WebhookRunner = { report: () => [], stop: async () => true }

/** Starts the delivery to webhooks; nothing where no command can have added one, as to a database in memory. */
export async function openWebhooks(
  { config, log, clocks, storage }: Opened,
  { untilNews }: ChangeFeed,
): Promise<WebhookRunner> {
  if (config.webhooks === 'off' || engineOf(config.database).isInMemory) return NO_WEBHOOKS
  const { startWebhooks } = await import('../webhooks/webhook-runner.ts')
  const { webhooks: store, changes, isIdle } = storage
  return startWebhooks({ ...clocks, store, changes, untilNews, log, isIdle })
}

/** Only with a management port: prom-client takes 12 MB. */
export async function openMetrics({ managementPort }: Config, { now }: Clocks) {
  if (managementPort === undefined) return undefined
  return (await import('../ops/metrics/create-metrics.ts')).createMetrics(now)
}

export interface OperationsOptions
  extends UserRouterOptions,
    Pick<Opened, 'storage' | 'clocks'>,
    Pick<ReportSources, 'checks' | 'server' | 'passwords' | 'deletions' | 'webhooks'> {
  readonly metrics: Metrics
  readonly limits: OwnLimits
}

/** What the management port asks of the service. */
export function createOperations(options: OperationsOptions): Operations {
  const { storage, clocks, limits, users, changes, checks, metrics } = options
  return {
    ...createReporter(options),
    ...{ clocks, checks, metrics, bans: limits.bans, users: { users, changes } },
    reloadLimits: limits.reload,
    readAnew: storage.readAnew,
    countUsers: async () => (await storage.users.list(FIRST_WITH_TOTAL)).total,
    describeWebhooks: async () =>
      describeWebhooks(await storage.webhooks.list(), storage.changes, clocks.now()),
  }
}
