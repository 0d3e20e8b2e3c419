import { type UnknownSetting, unknownInWords } from '../../config/did-you-mean.ts'
import {
  type Config,
  type Environment,
  readSettings,
  type SettingOptions,
} from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'
import type { CheckedLimits } from '../../limits/rules/rules-schema.ts'

export interface LoadedSettings {
  readonly config: Config
  /** The rules that LIMITS_FILE names; `undefined` if it is not set. */
  readonly limits: CheckedLimits | undefined
  readonly unknown: readonly UnknownSetting[]
}

/** The settings and the rules of the limits. Throws `OperatorError` with a line for each mistake in either. */
export async function loadSettings(
  environment: Environment,
  options: SettingOptions,
): Promise<LoadedSettings> {
  const { config, problems, unknown } = readSettings(environment, undefined, options)
  const mistakes: string[] = [...problems]
  let limits: CheckedLimits | undefined
  if (config.limitsFile !== undefined) {
    try {
      // Imported only if there are rules, as in `service.ts`.
      const { readLimits } = await import('../../open-limits.ts')
      limits = await readLimits(config.limitsFile)
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error
      mistakes.push(...error.problems)
    }
  }
  // A mistyped name may be the cause of the other mistakes.
  if (mistakes.length > 0) throw new OperatorError([...mistakes, ...unknown.map(unknownInWords)])
  return { config: config as Config, limits, unknown }
}
