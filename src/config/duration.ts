const UNITS_MS = new Map([
  ['', 1000],
  ['ms', 1],
  ['s', 1000],
  ['second', 1000],
  ['m', 60_000],
  ['minute', 60_000],
  ['h', 3_600_000],
  ['hour', 3_600_000],
  ['d', 86_400_000],
  ['day', 86_400_000],
])

/**
 * Parses a time such as `30s`, `500ms`, `1 minute` or `2 hours`, or a number of seconds without a unit. Returns
 * milliseconds, or `undefined` for any other text.
 */
export function parseDuration(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,12}) *([a-z]*)$/i.exec(text) ?? []
  const name = unit.toLowerCase()
  const unitMs =
    UNITS_MS.get(name) ?? (name.length > 3 ? UNITS_MS.get(name.replace(/s$/, '')) : undefined)
  return count === undefined || unitMs === undefined ? undefined : Number(count) * unitMs
}
