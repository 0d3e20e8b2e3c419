/** Numbers by name. */
export type Tally = Map<string, number>

export function add(tally: Tally, name: string, count = 1): void {
  tally.set(name, (tally.get(name) ?? 0) + count)
}

export function sumOf(tally: Tally): number {
  return [...tally.values()].reduce((sum, count) => sum + count, 0)
}

/** The numbers by what is left of each name. */
export function regroup(tally: Tally, rename: (name: string) => string): Tally {
  const groups: Tally = new Map()
  for (const [name, count] of tally) add(groups, rename(name), count)
  return groups
}

/** Names whose numbers differ, with `one - other`. */
export function differences(one: Tally, other: Tally): { name: string; difference: number }[] {
  return [...new Set([...one.keys(), ...other.keys()])]
    .map(name => ({ name, difference: (one.get(name) ?? 0) - (other.get(name) ?? 0) }))
    .filter(({ difference }) => difference !== 0)
}
