/** The labels of a sample, by their names. */
export type Labels = Readonly<Record<string, string | number>>

interface Kept {
  readonly given: Labels
  readonly plain: Labels
}

/** By the name of the metric, in the order of its samples. */
const kept = new Map<string, Kept[]>()

/**
 * Returns what takes the labels of each sample of a metric, and its index: equal labels at the same index come out as the same
 * object from scrape to scrape. prom-client formats such an object once; formatting takes most of the time of a scrape.
 * Prometheus would stop reading at a NUL, so that it becomes U+FFFD. prom-client escapes everything else.
 */
export function keepLabels(metric: string): (labels: Labels, index: number) => Labels {
  const before = kept.get(metric) ?? []
  kept.set(metric, before)
  return (labels, index) => {
    const known = before[index]
    if (known !== undefined && isEqual(known.given, labels)) return known.plain
    const plain = withoutNul(labels)
    before[index] = { given: labels, plain }
    return plain
  }
}

function isEqual(one: Labels, other: Labels): boolean {
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length && names.every(name => one[name] === other[name])
  )
}

function withoutNul(labels: Labels): Labels {
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => [
      name,
      typeof value === 'string' ? value.replaceAll('\0', '\ufffd') : value,
    ]),
  )
}
