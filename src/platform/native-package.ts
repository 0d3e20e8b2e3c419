import { createRequire } from 'node:module'
import { basename, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { OperatorError } from '../errors.ts'
import { PACKAGE_ROOT } from './package.ts'

const requirePackage = createRequire(import.meta.url)

/**
 * Loads a package with a compiled part. If importing the package does not load that part, `probe` must use it.
 * Throws `OperatorError` with one line if that fails: the package is missing, or was built for another Node or machine.
 */
export function loadNativePackage<T>(name: string, probe: (loaded: T) => void = () => {}): T {
  try {
    const loaded = requirePackage(name) as T
    probe(loaded)
    return loaded
  } catch (cause) {
    const { version, platform, arch } = process
    const [reason] = (cause as Error).message.split('\n')
    const problem =
      `${name} is not installed, or not for Node ${version} on ${platform}-${arch} (${reason}); ` +
      `"${installCommand(name)}" with this Node installs it, or shows why it cannot`
    throw new OperatorError([problem], { cause })
  }
}

/** A project that has installed this service may refuse to run install scripts. `npm install` skips what is there. */
function installCommand(name: string): string {
  const root = fileURLToPath(PACKAGE_ROOT)
  if (basename(dirname(root)) !== 'node_modules') return 'npm ci --foreground-scripts'
  const scripts = '--ignore-scripts=false --foreground-scripts'
  return isThere(name) ? `npm rebuild ${scripts} ${name}` : `npm install ${scripts}`
}

function isThere(name: string): boolean {
  try {
    requirePackage.resolve(name)
    return true
  } catch {
    return false
  }
}
