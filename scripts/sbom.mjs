// Prints the packages that production needs, and those in the pages, as CycloneDX, from package-lock.json alone: nothing has to be installed.
//
// `npm sbom --omit dev` (npm 11.19) wrongly leaves out packages that a dev dependency needs too, such as qs, which express
// needs. So npm gets a lock file from which the packages for development have been removed.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Development packages of which the build copies files into `dist`. What they depend on is not copied. */
const COPIED = ['swagger-ui-dist', 'uplot', 'preact']

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

function read(file) {
  return JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8'))
}

const lock = read('package-lock.json')
const manifest = production(read('package.json'))
const root = production(lock.packages[''])
// The workspace is for tests only. The lock file has it as a folder of this project and as a link to that folder.
const needed = Object.entries(lock.packages).filter(
  ([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link,
)
for (const name of COPIED) {
  const path = `node_modules/${name}`
  const { dev: _dev, dependencies: _dependencies, ...copied } = lock.packages[path]
  needed.push([path, copied])
}

const folder = mkdtempSync(join(tmpdir(), 'sbom-'))
try {
  // npm takes the name of the project from its folder.
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

function production({ devDependencies, workspaces: _workspaces, ...rest }) {
  const copied = COPIED.map(name => [name, devDependencies[name]])
  return { ...rest, dependencies: { ...rest.dependencies, ...Object.fromEntries(copied) } }
}
