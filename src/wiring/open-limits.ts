import type { Database } from 'better-sqlite3'
import type { Logger } from 'pino'
import { type Config, mistakeIn } from '../config.ts'
import { OperatorError } from '../errors.ts'
import { type BanList, openBanList } from '../limits/ban-list.ts'
import { counterKey } from '../limits/counter-store.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { LimitsWatch } from '../limits/limits-watch.ts'
import { LimitsRefused, loadLimits } from '../limits/load-limits.ts'
import { createMemoryCounterStore } from '../limits/memory-counter-store.ts'
import type { CheckedLimits } from '../limits/rules-schema.ts'
import { createSqliteBanStore } from '../storage/sqlite-ban-store.ts'
import type { WriteQueue } from '../storage/write-queue.ts'
import { type Clocks, monotonicClock } from './clocks.ts'

export interface LimiterParts extends Clocks {
  readonly config: Config
  readonly log: Logger
  readonly watch?: LimitsWatch
  readonly limits: CheckedLimits
  readonly database: Database
  readonly writes: WriteQueue
  readonly steadyNow: () => number
}

/** The limits of a service, and who is kept out. */
export interface OpenLimits {
  readonly limiter: Limiter
  readonly bans: BanList
}

/** The limits, with the bans of before. */
export async function openLimits(parts: LimiterParts): Promise<OpenLimits> {
  const { config, log, database, writes, steadyNow, watch, now = Date.now } = parts
  const limits = watch?.rules(parts.limits) ?? parts.limits
  const monotonicNow = parts.monotonicNow ?? monotonicClock
  const counters =
    config.cacheStore === 'memory' ? createMemoryCounterStore({ monotonicNow }) : undefined
  const store = counters && (watch?.store(counters) ?? counters)
  /** A client whose ban is lifted begins anew, also where another process banned it and this one had counted too. */
  const forgetStrikes = async (rule: string, clientKey: string) => {
    try {
      await store?.reset(counterKey('ban', rule, clientKey))
    } catch (err) {
      log.error({ err, rule }, 'strikes before a ban could not be forgotten')
    }
  }
  const bans = await openBanList({
    // Ended by both clocks: neither a jump of the one nor a machine that slept takes a ban away.
    store: createSqliteBanStore({ database, writes, now: () => Math.min(steadyNow(), now()) }),
    now,
    monotonicNow,
    onStoreFailure: err => log.error({ err }, 'a ban could not be kept for the next start'),
    onReadFailure: err => log.error({ err }, 'bans cannot be read again, those of before stay'),
    onForeignChange: forgetStrikes,
  })
  // Not at the top: the list of public suffixes takes 5 MB and 50 ms of a start, which a service without limits saves.
  const { createLimiter } = await import('../limits/limiter.ts')
  return { limiter: createLimiter({ limits, store, bans, log, now, monotonicNow }), bans }
}

/** Throws `OperatorError` with a line for each mistake in the file that LIMITS_FILE names. */
export async function readLimits(path: string): Promise<CheckedLimits> {
  try {
    return await loadLimits(path)
  } catch (error) {
    if (!(error instanceof LimitsRefused)) throw error
    throw new OperatorError(error.mistakes.map(mistake => mistakeIn('LIMITS_FILE', path, mistake)))
  }
}

/** Reads the rules again; a wrong file leaves those of before. What came of it is in the log. */
export async function reloadLimits(
  { limitsFile }: Config,
  limiter: Limiter | undefined,
  log: Logger,
): Promise<void> {
  if (limitsFile === undefined || limiter === undefined) {
    log.info('nothing to read again: LIMITS_FILE is not set')
    return
  }
  try {
    log.info(limiter.replace(await loadLimits(limitsFile)), 'limits read again')
  } catch (err) {
    const reason = err instanceof LimitsRefused ? { mistakes: err.mistakes } : { err }
    log.error(reason, 'limits are wrong, those of before stay')
  }
}
