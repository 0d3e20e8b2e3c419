import type { Logger } from 'pino'
import { createRuleLines, LINES_A_SECOND, type RuleLines } from '../limits/rule-lines.ts'
import { createSharedRuleLines } from '../limits/workers/shared-rule-lines.ts'
import type { Calls } from '../workers/calls.ts'
import type { Clocks } from './clocks.ts'

export interface LinesOptions {
  readonly log: Logger
  readonly clocks: Clocks
  /** Calls to the first process, if this is one of several that serve together. */
  readonly firstProcess?: Calls | undefined
}

/** Log lines of which clients can cause many. Several processes write each as if they were one. */
export function openLines({ log, clocks, firstProcess }: LinesOptions): RuleLines {
  const { monotonicNow } = clocks
  if (firstProcess === undefined) return createRuleLines({ log, monotonicNow })
  return createSharedRuleLines({ firstProcess, monotonicNow })
}

/** Logs a host that ALLOWED_HOSTS refuses: once, and at most `LINES_A_SECOND` of all hosts. */
export function writeRefusedHost(host: string, lines: RuleLines): void {
  const throttled = { source: 'refused hosts', most: LINES_A_SECOND, once: onceEver(host) }
  const message = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  lines.write({ level: 'warn', message, ...throttled }, () => ({ setting: 'ALLOWED_HOSTS', host }))
}

/** For a line that is written once. */
export function onceEver(key: string) {
  return { key, resetsInMs: Number.MAX_SAFE_INTEGER }
}
