import { readFileSync } from 'node:fs'
import { PACKAGE_ROOT } from './package-root.ts'

let version: string | undefined

/** The version in the `package.json` of this package, which is read once. */
export function readVersion(): string {
  version ??= readFromPackage()
  return version
}

function readFromPackage(): string {
  const file = new URL('package.json', PACKAGE_ROOT)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
