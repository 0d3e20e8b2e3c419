import { spawnSync } from 'node:child_process'

/** Whether tests can start a proxy. */
export const canUseNginx = spawnSync('nginx', ['-v']).status === 0

/** Which tests are skipped, and why. Undefined if none is. */
export function skippedOnNginx(): string | undefined {
  return canUseNginx ? undefined : 'tests behind a proxy are skipped: nginx is not installed'
}
