import { readFileSync } from 'node:fs'

/** The folder of this package, whose files are found from here: the bundle for CommonJS is in the same folder as this module. */
export const PACKAGE_ROOT = new URL('../', import.meta.url)

let version: string | undefined

/** The version in the `package.json` of this package, which is read once. */
export function readVersion(): string {
  version ??= JSON.parse(readFileSync(new URL('package.json', PACKAGE_ROOT), 'utf8'))
    .version as string
  return version
}
