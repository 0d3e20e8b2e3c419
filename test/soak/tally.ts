/** Numbers by name. */
export type Tally = Map<string, number>

export function add(tally: Tally, name: string, count = 1): void {
  tally.set(name, (tally.get(name) ?? 0) + count)
}

export function sumOf(tally: Tally): number {
  return [...tally.values()].reduce((sum, count) => sum + count, 0)
}

/** How many of `one` are missing in `other`, and how many `other` has beyond it, name by name. */
export function compareTallies(one: Tally, other: Tally): { missing: number; more: number } {
  let missing = 0
  let more = 0
  for (const name of new Set([...one.keys(), ...other.keys()])) {
    const difference = (one.get(name) ?? 0) - (other.get(name) ?? 0)
    if (difference > 0) missing += difference
    else more -= difference
  }
  return { missing, more }
}
