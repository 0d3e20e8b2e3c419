import type { Logger } from 'pino'
import { type Config, describeMistake } from '../config.ts'
import { OperatorError } from '../errors.ts'
import type { BanList } from '../limits/ban-list.ts'
import type { BanStore } from '../limits/ban-store.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { LimitsTrace } from '../limits/limits-trace.ts'
import { createMemoryCounterStore } from '../limits/memory-counter-store.ts'
import { openLimiter } from '../limits/open-limiter.ts'
import type { CheckedLimits } from '../limits/rules/compiled-rules.ts'
import { LimitsRefused, loadLimits } from '../limits/rules/load-limits.ts'
import { findWarnings } from '../limits/rules/rule-warnings.ts'
import type { Clocks } from './clocks.ts'

export interface LimiterParts {
  readonly config: Config
  readonly log: Logger
  readonly trace?: LimitsTrace | undefined
  readonly limits: CheckedLimits
  readonly banStore: BanStore
  readonly clocks: Clocks
}

/** The limits of a service, and the bans in force. */
export interface OpenLimits {
  readonly limiter: Limiter
  readonly bans: BanList
}

/** Opens the limits of a service. Rejects when its bans cannot be read. */
export async function openLimits(parts: LimiterParts): Promise<OpenLimits> {
  const { config, limits, log, banStore, trace, clocks } = parts
  const { now, monotonicNow } = clocks
  logWarnings(parts)
  const store =
    config.cacheStore === 'memory' ? createMemoryCounterStore({ monotonicNow }) : undefined
  return openLimiter({ limits, store, banStore, log, now, monotonicNow, trace })
}

/** The rules of a file. Throws `OperatorError` with a line for each mistake, which `blame` makes. */
export async function readLimits(
  path: string,
  blame = (mistake: string) => describeMistake('LIMITS_FILE', path, mistake),
): Promise<CheckedLimits> {
  try {
    return await loadLimits(path)
  } catch (error) {
    if (!(error instanceof LimitsRefused)) throw error
    throw new OperatorError(error.mistakes.map(blame))
  }
}

/** Reads the rules again. An invalid file leaves the previous rules in force. The log has the result. */
export async function reloadLimits(
  config: Config,
  limiter: Limiter | undefined,
  log: Logger,
): Promise<void> {
  const { limitsFile } = config
  if (limitsFile === undefined || limiter === undefined) {
    log.info('reload ignored: LIMITS_FILE is not set')
    return
  }
  try {
    const limits = await loadLimits(limitsFile)
    logWarnings({ limits, config, log })
    log.info(limiter.replace(limits), 'limits reloaded')
  } catch (err) {
    const reason = err instanceof LimitsRefused ? { mistakes: err.mistakes } : { err }
    log.error(reason, 'limits file is invalid, keeping the previous rules')
  }
}

function logWarnings(parts: Pick<LimiterParts, 'limits' | 'config' | 'log'>): void {
  const { limits, config, log } = parts
  for (const warning of findWarnings(limits, { isCounting: config.cacheStore !== 'none' })) {
    log.warn({ warning }, 'limits may not work as intended')
  }
}
