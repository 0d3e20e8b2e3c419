import { describeMistake, describeProblem } from '../config/settings.ts'
import { OperatorError, ServiceError } from '../errors.ts'
import { openBanList } from '../limits/ban-list.ts'
import { forgetStrikes } from '../limits/counter-store.ts'
import { createBanControl } from '../limits/kinds/ban-control.ts'
import { type CheckedLimits, NO_LIMITS } from '../limits/kinds/kinds.ts'
import { createLimiter, type Limiter, type RuleChanges } from '../limits/kinds/limiter.ts'
import { loadLimits } from '../limits/kinds/load-limits.ts'
import { findWarnings } from '../limits/kinds/rule-warnings.ts'
import { createLimitLog } from '../limits/limit-log.ts'
import { createMemoryCounterStore } from '../limits/memory-counter-store.ts'
import type { LimitsReport } from '../limits/rule-report.ts'
import { openAll } from '../platform/open-all.ts'
import type { Opened } from './open-storage.ts'

export interface LimitsOptions extends Opened {
  readonly limits: CheckedLimits
}

/** Opens the limits of a service, with its counters and the bans in force. Rejects when its bans cannot be read. Throws `OperatorError` when its counters cannot be used. */
export function openLimits(options: LimitsOptions) {
  const { config, clocks, storage, log, limits } = options
  const { monotonicNow } = clocks
  logWarnings(options)
  return openAll(async closers => {
    const { store, isLocal, close } = await openCounters(options)
    closers.push(close)
    const limitLog = createLimitLog({ log, monotonicNow })
    const bans = await storage.untilReachable(() =>
      openBanList({
        monotonicNow,
        store: storage.bans,
        onStoreFailure: limitLog.savingFailed,
        onReadFailure: err =>
          log.error({ err }, 'cannot refresh bans, keeping those already loaded'),
        // The client may have strikes here too. After a lift it starts from zero at once.
        onForeignChange: ban =>
          void forgetStrikes(ban, { store, log: limitLog }, bans.remainingMs(ban)),
      }),
    )
    closers.push(bans.close)
    const limiter = createLimiter({
      ...{ limits, store, bans, log: limitLog, now: clocks.now, steadyNow: clocks.steadyNow },
    })
    return {
      limiter,
      /** For operators. */
      bans: createBanControl({
        banStore: storage.bans,
        wallNow: clocks.now,
        limits: { store, bans, log: limitLog, limiter },
      }),
      isCountingLocally: isLocal,
      report: (): LimitsReport => {
        return { ...limiter.report(), store: config.cacheStore, isStoreUp: !isLocal() }
      },
      reload: (path: string) => reload(path, { config, log, limiter }),
    }
  })
}

/**
 * Opens the counters that CACHE_STORE names, and tells whether this process counts alone because they cannot be reached. Throws
 * `OperatorError`.
 */
async function openCounters({ config, clocks, log, storage }: LimitsOptions) {
  const alone = { isLocal: () => false, close: () => {} }
  if (config.cacheStore === 'none') return { ...alone, store: undefined }
  const local = createMemoryCounterStore(clocks)
  const { redis: location, redisPrefix: prefix } = config
  // The settings say that both come together.
  if (location === undefined || config.cacheStore === 'memory') return { ...alone, store: local }
  // Imported only if it is used: the client takes 18 MB and a tenth of a second.
  const { openRedisCounters } = await import('../storage/redis/open-redis-counters.ts')
  const { UnusableRedis } = await import('../storage/redis/redis-errors.ts')
  try {
    const store = await openRedisCounters({
      ...{ location, prefix, local, steadyNow: clocks.steadyNow },
      secret: await storage.signingKey('counters'),
      onLost: reason => log.warn({ reason }, 'Redis cannot be used, limits are counted locally'),
      onBack: () => log.info('Redis can be used again, limits are counted there'),
    })
    return { store, isLocal: store.isLocal, close: store.close }
  } catch (error) {
    if (!(error instanceof UnusableRedis)) throw error
    throw new OperatorError([describeProblem('REDIS_URL', location.url, error.message)])
  }
}

/**
 * Reads the rules of a file. Without a path there are none. Throws `OperatorError` with the lines that `describe` makes of the
 * mistakes.
 */
export async function readLimits(
  path: string | undefined,
  describe = (mistakes: readonly string[]) => describeMistakes(path ?? '', mistakes),
): Promise<CheckedLimits> {
  if (path === undefined) return NO_LIMITS
  try {
    return await loadLimits(path)
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    throw new OperatorError(describe(error.problems))
  }
}

function describeMistakes(path: string, mistakes: readonly string[]): readonly string[] {
  const describe = (what: string) => describeMistake('LIMITS_FILE', path, what)
  const [only = '', ...others] = mistakes
  if (others.length === 0) return [describe(only)]
  return [describe(`${mistakes.length} mistakes`), ...mistakes.map(mistake => `  ${mistake}`)]
}

type ReloadParts = Pick<LimitsOptions, 'config' | 'log'> & { readonly limiter: Limiter }

/**
 * Puts the rules of a file in force. The log has the result. Throws `limits_invalid` and `reload_failed`: the previous rules
 * then stay.
 */
async function reload(path: string, { config, log, limiter }: ReloadParts): Promise<RuleChanges> {
  try {
    const limits = await loadLimits(path)
    const changes = limiter.replace(limits)
    logWarnings({ limits, config, log })
    log.info(changes, 'limits reloaded')
    return changes
  } catch (err) {
    if (err instanceof OperatorError) {
      const { problems: mistakes } = err
      log.error({ mistakes }, 'limits file is invalid, keeping the previous rules')
      const errors = [{ field: 'LIMITS_FILE', messages: mistakes }]
      throw new ServiceError('limits_invalid', { errors })
    }
    log.error({ err }, 'limits could not be reloaded, keeping the previous rules')
    throw new ServiceError('reload_failed')
  }
}

/** Logs what in the rules may be a mistake. */
function logWarnings({ limits, config, log }: Pick<LimitsOptions, 'limits' | 'config' | 'log'>) {
  for (const warning of findWarnings(limits, config)) {
    log.warn({ warning }, 'limits may not work as intended')
  }
}
