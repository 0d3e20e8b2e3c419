import { existsSync, readFileSync } from 'node:fs'

/** The folder of this package: the nearest one above this module, which may be part of a bundle, with a package.json. */
export const PACKAGE_ROOT = findRoot(new URL('./', import.meta.url))

function findRoot(folder: URL): URL {
  const isRoot = existsSync(new URL('package.json', folder))
  return isRoot ? folder : findRoot(new URL('../', folder))
}

let version: string | undefined

/** The version in the `package.json` of this package, which is read once. */
export function readVersion(): string {
  version ??= JSON.parse(readFileSync(new URL('package.json', PACKAGE_ROOT), 'utf8'))
    .version as string
  return version
}
