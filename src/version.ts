import { readFileSync } from 'node:fs'

let version: string | undefined

/** The version in the `package.json` of this package, which is read once. */
export function readVersion(): string {
  version ??= readFromPackage()
  return version
}

function readFromPackage(): string {
  const file = new URL('../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
