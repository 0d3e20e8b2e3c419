import { execFile, execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { PROJECT } from './project.ts'

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

export function readJson(path: string) {
  return JSON.parse(readFileSync(path, 'utf8'))
}

/** The package as `npm pack` makes it, or that of a workspace, unpacked in a folder. */
export function packPackage(folder: string, workspace?: string): string {
  // The package is built already, a workspace builds itself.
  const of = workspace === undefined ? ['--ignore-scripts'] : ['--workspace', workspace]
  const args = ['pack', ...of, '--silent', '--pack-destination', folder]
  execFileSync('npm', args, { cwd: PROJECT, stdio: ['ignore', 'ignore', 'pipe'] })
  const tarball = readdirSync(folder).find(name => name.endsWith('.tgz')) ?? ''
  execFileSync('tar', ['-xzf', tarball], { cwd: folder })
  return join(folder, 'package')
}

/** Installs packages of the registry in a folder, or those of its `package.json`, without running their scripts. */
export async function installPackages(cwd: string, ...packages: string[]): Promise<void> {
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent', '--prefer-offline']
  await promisify(execFile)('npm', ['install', ...flags, '--prefix', cwd, ...packages], { cwd })
}

/**
 * A project in `folder` that has installed the package and `others`, with what comes along with them. Links to this checkout stand
 * for what npm would fetch.
 */
export function projectWith(packed: string, folder: string, others: readonly string[] = []) {
  const cwd = mkdtempSync(join(folder, 'project-'))
  const modules = join(cwd, 'node_modules')
  cpSync(packed, join(modules, 'user-records-service'), { recursive: true })
  const needed = needsOf(readJson(join(packed, 'package.json')))
  for (const name of installedAlong([...needed, ...others])) {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(PROJECT, 'node_modules', name), join(modules, name), 'dir')
  }
  return cwd
}

/** Names in `node_modules` of what is installed along with packages: theirs, and what those need in turn. */
function installedAlong(roots: readonly string[]): Set<string> {
  const locked: Readonly<Record<string, Locked>> = readJson(
    join(PROJECT, 'package-lock.json'),
  ).packages
  const names = new Set<string>()
  const waiting = [...roots]
  for (const name of waiting) {
    const path = `node_modules/${name}`
    if (names.has(name) || locked[path] === undefined || !existsSync(join(PROJECT, path))) continue
    names.add(name)
    waiting.push(...needsOf(locked[path]))
  }
  return names
}

function needsOf({ dependencies, optionalDependencies }: Locked): string[] {
  return Object.keys({ ...dependencies, ...optionalDependencies })
}
