import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { PROJECT } from './project.ts'

/** The user nobody of Linux: root may write to files of any mode. */
export const NOBODY = 65_534

/** A user without the rights of root, for `run`, `spawnService` and `spawn`. */
export const owner: { readonly uid?: number; readonly gid?: number } =
  process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}

/** Whether that user can run the service. If not, prints why. */
export function canRunAsNobody(): boolean {
  const main = join(PROJECT, 'dist/main.js')
  const { status } = spawnSync(process.execPath, [main, '--version'], { cwd: '/', ...owner })
  if (status !== 0) {
    console.log('tests of missing rights are skipped: node and dist/ are out of reach of nobody')
  }
  return status === 0
}
