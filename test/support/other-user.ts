import { spawnSync } from 'node:child_process'
import { MAIN } from './spawn-service.ts'

/** nobody of Linux, because root may write whatever the mode. */
export const NOBODY = 65_534

export const isRoot = process.getuid?.() === 0

/** Who runs what must not be able to do everything: to be given to `run` and `spawnService`. */
export const owner: { readonly uid?: number; readonly gid?: number } = isRoot
  ? { uid: NOBODY, gid: NOBODY }
  : {}

const why = whyNot()
if (why !== undefined) console.log(`tests of missing rights are skipped: ${why}`)

/** Where it is false, the reason has been printed. */
export const canRunAsNobody = why === undefined

function whyNot(): string | undefined {
  const { status } = spawnSync(process.execPath, [MAIN, '--version'], { cwd: '/', ...owner })
  return status === 0 ? undefined : 'node and dist/ are out of reach of the user nobody'
}
