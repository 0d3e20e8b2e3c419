import { spawnSync } from 'node:child_process'
import { MAIN } from './spawn-service.ts'
import { owner } from './unprivileged-user.ts'

const why = whyNot()
if (why !== undefined) console.log(`tests of missing rights are skipped: ${why}`)

/** If false, the reason has been printed. */
export const canRunAsNobody = why === undefined

function whyNot(): string | undefined {
  const { status } = spawnSync(process.execPath, [MAIN, '--version'], { cwd: '/', ...owner })
  return status === 0 ? undefined : 'node and dist/ are out of reach of the user nobody'
}
