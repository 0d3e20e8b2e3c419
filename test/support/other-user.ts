import { spawnSync } from 'node:child_process'
import { MAIN } from './spawn-service.ts'

/** The user nobody of Linux: root may write to files of any mode. */
export const NOBODY = 65_534

export const isRoot = process.getuid?.() === 0

/** A user without the rights of root, for `run` and `spawnService`. */
export const owner: { readonly uid?: number; readonly gid?: number } = isRoot
  ? { uid: NOBODY, gid: NOBODY }
  : {}

const why = whyNot()
if (why !== undefined) console.log(`tests of missing rights are skipped: ${why}`)

/** If false, the reason has been printed. */
export const canRunAsNobody = why === undefined

function whyNot(): string | undefined {
  const { status } = spawnSync(process.execPath, [MAIN, '--version'], { cwd: '/', ...owner })
  return status === 0 ? undefined : 'node and dist/ are out of reach of the user nobody'
}
