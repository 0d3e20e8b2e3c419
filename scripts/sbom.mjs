// Prints what production needs, as CycloneDX, from package-lock.json alone: nothing has to be installed.
//
// `npm sbom --omit dev` leaves out what a dev dependency needs too, such as qs, which express brings (npm 11.19);
// so npm is shown a lock file without what is for development only.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

function read(file) {
  return JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8'))
}

const { devDependencies: _dev, workspaces: _workspaces, ...manifest } = read('package.json')
const lock = read('package-lock.json')
const { devDependencies: _lockedDev, workspaces: _lockedWorkspaces, ...root } = lock.packages['']
// A workspace is for tests, and stands there as a folder of this project and a link to it.
const needed = Object.entries(lock.packages).filter(
  ([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link,
)

const folder = mkdtempSync(join(tmpdir(), 'sbom-'))
try {
  // npm names the whole by its folder.
  const project = join(folder, manifest.name)
  mkdirSync(project)
  const packages = { '': root, ...Object.fromEntries(needed) }
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(project, 'package-lock.json'), JSON.stringify({ ...lock, packages }))
  const options = ['--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only']
  const stdio = ['ignore', 'pipe', 'inherit']
  const bom = execFileSync('npm', ['sbom', ...options], {
    cwd: project,
    stdio,
    maxBuffer: MAX_OUTPUT_BYTES,
    shell: process.platform === 'win32',
  })
  process.stdout.write(bom)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
