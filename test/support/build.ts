import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Builds what the tests spawn, unless `dist` is newer than its sources. */
export default function build(): void {
  const script = fileURLToPath(new URL('../../scripts/build-if-needed.mjs', import.meta.url))
  execFileSync(process.execPath, [script], { stdio: 'inherit' })
}
