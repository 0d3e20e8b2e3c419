import type { Logger } from 'pino'
import { type Config, describeMistake } from '../config/settings.ts'
import { OperatorError } from '../errors.ts'
import type { BanControl } from '../limits/ban-control.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { LimitsTrace } from '../limits/limits-trace.ts'
import { openLimiter } from '../limits/open-limiter.ts'
import type { RuleChanges } from '../limits/rule-changes.ts'
import type { RuleLines } from '../limits/rule-lines.ts'
import type { LimitsReport } from '../limits/rule-report.ts'
import type { CheckedLimits } from '../limits/rules/compiled-rules.ts'
import { LimitsRefused, loadLimits } from '../limits/rules/load-limits.ts'
import { findWarnings, type RuleSurroundings } from '../limits/rules/rule-warnings.ts'
import type { ReloadResult } from '../ops/management/operations.ts'
import type { Storage } from '../storage/storage.ts'
import type { Clocks } from './clocks.ts'
import { openCounters } from './open-counters.ts'

export interface LimiterParts {
  readonly config: Config
  readonly log: Logger
  readonly trace?: LimitsTrace | undefined
  readonly limits: CheckedLimits
  readonly storage: Pick<Storage, 'bans' | 'signingKey' | 'untilReachable'>
  readonly clocks: Clocks
  /** Writes log lines about the rules. */
  readonly lines: RuleLines
}

/** The limits of a service, with its counters and the bans in force. */
export interface OpenLimits {
  readonly limiter: Limiter
  /** For operators. */
  readonly bans: BanControl
  /** Whether this process counts by itself because counters that others share cannot be reached. */
  isCountingLocally(): boolean
  report(): LimitsReport
  close(): Promise<void>
}

/**
 * Opens the limits of a service. Rejects when its bans cannot be read. Throws `OperatorError` when its counters cannot be used.
 */
export async function openLimits(parts: LimiterParts): Promise<OpenLimits> {
  const { config, clocks, storage } = parts
  const { signingKey, untilReachable, bans: banStore } = storage
  logWarnings(parts)
  const counters = await openCounters({ ...parts, signingKey })
  try {
    const { limiter, bans, close } = await openLimiter({
      ...parts,
      ...clocks,
      banStore,
      untilReachable,
      store: counters.store,
    })
    return {
      limiter,
      bans,
      isCountingLocally: counters.isLocal,
      report: () => ({
        ...limiter.report(),
        store: config.cacheStore,
        isStoreUp: !counters.isLocal(),
      }),
      close: async () => {
        await close()
        counters.close()
      },
    }
  } catch (error) {
    counters.close()
    throw error
  }
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
  log: Logger,
  replace: (limits: CheckedLimits) => RuleChanges,
): Promise<ReloadResult> {
  const { limitsFile } = config
  if (limitsFile === undefined) {
    log.info('reload ignored: LIMITS_FILE is not set')
    return { outcome: 'no file' }
  }
  try {
    const limits = await loadLimits(limitsFile)
    const changes = replace(limits)
    logWarnings({ limits, config, log })
    log.info(changes, 'limits reloaded')
    return { outcome: 'reloaded', changes }
  } catch (err) {
    if (err instanceof LimitsRefused) {
      const { mistakes } = err
      log.error({ mistakes }, 'limits file is invalid, keeping the previous rules')
      return { outcome: 'invalid', mistakes }
    }
    log.error({ err }, 'limits could not be reloaded, keeping the previous rules')
    return { outcome: 'failed' }
  }
}

/** What decides, besides the file, whether rules can work. */
export function ruleSurroundings({
  cacheStore,
  apiKeys,
}: Pick<Config, 'cacheStore' | 'apiKeys'>): RuleSurroundings {
  return { isCounting: cacheStore !== 'none', hasKeys: apiKeys === 'required' }
}

/** Logs what in the rules may be a mistake. */
function logWarnings(parts: Pick<LimiterParts, 'limits' | 'config' | 'log'>): void {
  const { limits, config, log } = parts
  for (const warning of findWarnings(limits, ruleSurroundings(config))) {
    log.warn({ warning }, 'limits may not work as intended')
  }
}
