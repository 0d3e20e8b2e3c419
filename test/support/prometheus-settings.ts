import { spawnSync } from 'node:child_process'

/** Whether tests can check rules with promtool and start a Prometheus server of their own. */
export const canUsePrometheus = ['prometheus', 'promtool'].every(
  program => spawnSync(program, ['--version']).status === 0,
)

/** Which tests are skipped, and why. Undefined if none is. */
export function skippedOnPrometheus(): string | undefined {
  if (canUsePrometheus) return undefined
  return 'tests on Prometheus are skipped: prometheus and promtool are not installed'
}
