/** The folder of this package, whose files are found from here: the bundle for CommonJS is in the same folder as this module. */
export const PACKAGE_ROOT = new URL('../', import.meta.url)
