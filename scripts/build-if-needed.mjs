// Builds unless dist is newer than all its sources. npm runs this after an installation, and also at the first
// `npx user-records-service` in a checkout, when a service may already run from dist.

import { execSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PROJECT = fileURLToPath(new URL('../', import.meta.url))

const SOURCES = [
  'src',
  'pages',
  'scripts',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
]

/** The file that a build writes last. */
const LAST = 'dist/operator/index.html'

function changedAt(path) {
  const stat = statSync(path)
  if (!stat.isDirectory()) return stat.mtimeMs
  // The time of the folder itself shows that a file was removed.
  return Math.max(stat.mtimeMs, ...readdirSync(path).map(name => changedAt(join(path, name))))
}

const builtAt = statSync(join(PROJECT, LAST), { throwIfNoEntry: false })?.mtimeMs ?? 0
const newest = Math.max(...SOURCES.map(path => changedAt(join(PROJECT, path))))
if (builtAt <= newest) execSync('npm run build', { cwd: PROJECT, stdio: 'inherit' })
