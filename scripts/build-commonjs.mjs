// Bundles the library for `require`, from what the compiler has put into dist, into dist/library.cjs. It contains what the library
// imports late, because Jest lets a module in CommonJS import nothing. The packages stay outside.

import { copyFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const PROJECT = fileURLToPath(new URL('../', import.meta.url))

/** Imports limits files. In the bundle it does so by the loader of Node, whatever surrounds it. */
const IMPORTER = `${PROJECT}dist/platform/import-module.js`

const IMPORTER_CODE = `
  import { compileFunction, constants } from 'node:vm'
  export const importModule = compileFunction('return import(url)', ['url'], {
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  })`

/** A package has a module of its own in the bundle, so that it is loaded when it is used. */
const PACKAGE = '\0package '

const plugin = {
  name: 'library',
  resolveId: (id, importer) => {
    if (isBuiltin(id) || importer?.startsWith(PACKAGE)) return { id, external: true }
    return /^[./]/.test(id) ? undefined : `${PACKAGE}${id}`
  },
  load: id => {
    if (id === IMPORTER) return IMPORTER_CODE
    const [, name] = id.split(PACKAGE)
    return name && `module.exports = require('${name}')`
  },
}

const bundle = await rolldown({
  ...{ input: `${PROJECT}dist/library.js`, platform: 'node', plugins: [plugin] },
  treeshake: false,
})
await bundle.write({
  ...{ file: `${PROJECT}dist/library.cjs`, format: 'cjs', codeSplitting: false, comments: false },
  // Like `treeshake`, it would drop calls whose result is not used, also one of `decodeURIComponent` that is to throw.
  minify: false,
})
copyFileSync(`${PROJECT}src/library.d.cts`, `${PROJECT}dist/library.d.cts`)
