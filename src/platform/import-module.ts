/** In a file of its own, in whose place the bundle for CommonJS has another: Jest lets nothing in CommonJS import a module. */
export function importModule(url: string): Promise<{ readonly default?: unknown }> {
  return import(url)
}
