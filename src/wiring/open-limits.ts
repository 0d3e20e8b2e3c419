import type { Logger } from 'pino'
import { type Config, describeMistake } from '../config.ts'
import { OperatorError } from '../errors.ts'
import type { BanStore } from '../limits/ban-store.ts'
import type { CounterStore } from '../limits/counter-store.ts'
import type { LimitsTrace } from '../limits/limits-trace.ts'
import { createMemoryCounterStore } from '../limits/memory-counter-store.ts'
import { type OpenLimiter, openLimiter } from '../limits/open-limiter.ts'
import type { RuleChanges } from '../limits/rule-changes.ts'
import type { CheckedLimits } from '../limits/rules/compiled-rules.ts'
import {
  compileLimits,
  LimitsRefused,
  type LimitsSource,
  readLimitsSource,
} from '../limits/rules/load-limits.ts'
import { findWarnings } from '../limits/rules/rule-warnings.ts'
import { createWorkerCounterStore } from '../limits/shared-counter-store.ts'
import type { Calls } from '../workers/calls.ts'
import type { Clocks } from './clocks.ts'

export interface LimiterParts {
  readonly config: Config
  readonly log: Logger
  readonly trace?: LimitsTrace | undefined
  readonly limits: CheckedLimits
  readonly banStore: BanStore
  readonly clocks: Clocks
  /** Calls to the first process, if this is one of several that serve together. */
  readonly firstProcess?: Calls | undefined
}

/** Opens the limits of a service. Rejects when its bans cannot be read. */
export async function openLimits(parts: LimiterParts): Promise<OpenLimiter> {
  const { clocks, ...others } = parts
  const { now, monotonicNow } = clocks
  // The first process logs them for all.
  if (parts.firstProcess === undefined) logWarnings(parts)
  const store = openCounters(parts)
  const { limiter, close } = await openLimiter({ ...others, store, now, monotonicNow })
  return {
    limiter,
    close: async () => {
      store?.close?.()
      await close()
    },
  }
}

function openCounters(parts: LimiterParts): (CounterStore & { close?(): void }) | undefined {
  const { config, clocks, firstProcess, log } = parts
  const { monotonicNow } = clocks
  if (config.cacheStore !== 'memory') return undefined
  if (firstProcess === undefined) return createMemoryCounterStore({ monotonicNow })
  return createWorkerCounterStore({ firstProcess, monotonicNow, log })
}

/** The rules of a file, and what they were compiled from. */
export interface ReadLimits {
  readonly limits: CheckedLimits
  readonly source: LimitsSource
}

/** The rules of a file. Throws `OperatorError` with a line for each mistake, which `blame` makes. */
export async function readLimits(
  path: string,
  blame = (mistake: string) => describeMistake('LIMITS_FILE', path, mistake),
): Promise<ReadLimits> {
  try {
    const source = await readLimitsSource(path)
    return { source, limits: await compileLimits(source) }
  } catch (error) {
    if (!(error instanceof LimitsRefused)) throw error
    throw new OperatorError(error.mistakes.map(blame))
  }
}

/** Reads the rules again. An invalid file leaves the previous rules in force. The log has the result. */
export async function reloadLimits(
  config: Config,
  log: Logger,
  replace: (source: LimitsSource, limits: CheckedLimits) => Promise<RuleChanges>,
): Promise<void> {
  const { limitsFile } = config
  if (limitsFile === undefined) {
    log.info('reload ignored: LIMITS_FILE is not set')
    return
  }
  try {
    const source = await readLimitsSource(limitsFile)
    const limits = await compileLimits(source)
    const changes = await replace(source, limits)
    logWarnings({ limits, config, log })
    log.info(changes, 'limits reloaded')
  } catch (err) {
    const reason = err instanceof LimitsRefused ? { mistakes: err.mistakes } : { err }
    log.error(reason, 'limits file is invalid, keeping the previous rules')
  }
}

/** Logs what in the rules may be a mistake. */
export function logWarnings(parts: Pick<LimiterParts, 'limits' | 'config' | 'log'>): void {
  const { limits, config, log } = parts
  for (const warning of findWarnings(limits, { isCounting: config.cacheStore !== 'none' })) {
    log.warn({ warning }, 'limits may not work as intended')
  }
}
