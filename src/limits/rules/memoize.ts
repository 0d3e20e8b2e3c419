const MAX_RESULTS = 10_000

/** `compute` with a cache of at most `maxResults` results, which is emptied when it is full. */
export function memoize<Key, Result>(
  compute: (key: Key) => Result,
  maxResults = MAX_RESULTS,
): (key: Key) => Result {
  const results = new Map<Key, Result>()
  return key => {
    let result = results.get(key)
    if (result === undefined) {
      if (results.size >= maxResults) results.clear()
      result = compute(key)
      results.set(key, result)
    }
    return result
  }
}
