import type { Config } from '../config/settings.ts'
import { type BanControl, createBanControl } from '../limits/kinds/ban-control.ts'
import type { CheckedLimits } from '../limits/kinds/kinds.ts'
import type { Limiter, RuleChanges } from '../limits/kinds/limiter.ts'
import type { LimitsReport } from '../limits/rule-report.ts'
import type { Opened } from './open-storage.ts'

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
