import { createRequire } from 'node:module'
import { OperatorError } from './errors.ts'

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
      '"npm ci --foreground-scripts" with this Node installs it, or shows why it cannot'
    throw new OperatorError([problem], { cause })
  }
}
