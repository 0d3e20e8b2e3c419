/** The labels of a sample, by their names. */
export type Labels = Readonly<Record<string, string | number>>

/** Rules and API keys come and go, so that not all of them can be kept for ever. */
const MAX_KEPT = 10_000

const kept = new Map<string, Labels>()

/**
 * The same object for equal labels: prom-client formats it once, where labels of a new object take most of the time of a scrape.
 * Prometheus would stop reading at a NUL, so that it becomes U+FFFD. prom-client escapes everything else.
 */
export function sameForEqual(labels: Labels): Labels {
  const key = keyOf(labels)
  const known = kept.get(key)
  if (known !== undefined) return known
  if (kept.size >= MAX_KEPT) kept.clear()
  const plain = Object.fromEntries(
    Object.entries(labels).map(([name, value]) => [
      name,
      typeof value === 'string' ? value.replaceAll('\0', '\ufffd') : value,
    ]),
  )
  kept.set(key, plain)
  return plain
}

/** Differs if any name or value differs: each value comes after its length. JSON takes several times as long. */
function keyOf(labels: Labels): string {
  let key = ''
  for (const name in labels) {
    const value = String(labels[name])
    key += `${name}=${value.length}:${value}`
  }
  return key
}
