/**
 * Prints why tests are skipped. Throws instead if `REQUIRE_ENGINES`, a comma list of engines, has this one: then a run of
 * all tests cannot pass without it.
 */
export function skipEngine(engine: string, tests: string, reason: string): void {
  const required = (process.env.REQUIRE_ENGINES ?? '').split(',')
  const sentence = `${tests} are skipped: ${reason}`
  if (required.includes(engine)) throw new Error(`${sentence}, but REQUIRE_ENGINES has ${engine}`)
  console.error(sentence)
}
