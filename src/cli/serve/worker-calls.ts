import type { AddressInfo } from 'node:net'
import type { Config, SettingOptions } from '../../config.ts'
import type { LimitsSource } from '../../limits/rules/load-limits.ts'
import type { CallKind } from '../../workers/calls.ts'

/** What a worker needs to know to serve. */
export interface Assignment {
  /** From 1 to the number of workers. */
  readonly worker: number
  /** Whether all workers have served before. */
  readonly isReplacement: boolean
  readonly config: Config
  /** The options of `serve`, for messages about what they set. */
  readonly options: SettingOptions
  /** The limits file in force; absent without limits. */
  readonly rules?: LimitsSource
}

/** A worker asks for its assignment. */
export const ASSIGN: CallKind<null, Assignment> = { name: 'assign' }

/** A worker asks for the port to listen on, right before it does: it changes when a free one was picked. */
export const FIND_PORT: CallKind<null, number> = { name: 'port' }

/** A worker serves. */
export const SERVING: CallKind<AddressInfo, void> = { name: 'serving' }

/** A worker cannot serve: lines for the operator. */
export const CANNOT_SERVE: CallKind<readonly string[], void> = { name: 'cannotServe' }

/** A worker is told to stop. Its exit code is 0 if all requests were answered. */
export const STOP: CallKind<null, void> = { name: 'stop' }

/** A worker is told to compile rules, and keeps them until `APPLY_RULES`. */
export const PREPARE_RULES: CallKind<LimitsSource, void> = { name: 'prepareRules' }

/** A worker is told to put the prepared rules in force. */
export const APPLY_RULES: CallKind<null, void> = { name: 'applyRules' }
