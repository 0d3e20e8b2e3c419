import { ownCopy } from '../platform/memoize.ts'

/** After how many new keys the iterator over them is replaced. */
const RENEW_EVERY = 1000

/**
 * A map of keys to values for each rule, with a bound of its own: if a rule has more keys, its oldest are dropped. So keys that a
 * client may choose push out nothing of another rule.
 */
export function createRuleMaps<Value>(maxKeys: number) {
  const rules = new Map<string, ReturnType<typeof createBoundedMap<Value>>>()

  return {
    isEmpty: () => rules.size === 0,

    get: (rule: string, key: string): Value | undefined => rules.get(rule)?.values.get(key),

    /** The key is then the newest one of its rule. */
    set: (rule: string, key: string, value: Value): void => {
      const map = rules.get(rule) ?? createBoundedMap<Value>(maxKeys)
      rules.set(rule, map)
      map.add(key, value)
    },

    delete: (rule: string, key: string): void => {
      const values = rules.get(rule)?.values
      values?.delete(key)
      if (values?.size === 0) rules.delete(rule)
    },

    /**
     * For rules that are no longer in force: drops the values that are over. At most `maxKeys` others stay, those of
     * the newest rules, because each reload may bring new names.
     */
    letRunOut: (inForce: ReadonlySet<string>, isOver: (value: Value) => boolean): void => {
      let room = maxKeys
      for (const [rule, { values }] of [...rules].reverse()) {
        if (inForce.has(rule)) continue
        for (const [key, value] of values) if (isOver(value)) values.delete(key)
        if (values.size === 0 || values.size > room) rules.delete(rule)
        else room -= values.size
      }
    },

    /** Calls `visit` for all values, those of one rule from the oldest on. It may delete what it visits. */
    forEach: (visit: (value: Value) => void): void => {
      for (const { values } of rules.values()) for (const value of values.values()) visit(value)
    },
  }
}

function createBoundedMap<Value>(maxKeys: number) {
  // A Map keeps the order of insertion.
  const values = new Map<string, Value>()
  // All keys before its place are gone. A new iterator passes each of them again, for 25 µs.
  let oldest = values.keys()
  let added = 0

  return {
    values,
    add: (key: string, value: Value): void => {
      values.delete(key)
      // An iterator keeps the tables that the Map has outgrown since it was last used, with all values that were in them.
      if (++added % RENEW_EVERY === 0) oldest = values.keys()
      if (values.size >= maxKeys) values.delete(oldest.next().value as string)
      values.set(ownCopy(key), value)
    },
  }
}
