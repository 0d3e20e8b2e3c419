const MAX_RESULTS = 10_000

/** The most characters of a text whose result is kept. */
const MAX_KEPT_CHARS = 512

/** `compute` with a cache of at most `MAX_RESULTS` results, which is emptied when it is full. */
export function memoize<Result>(compute: (text: string) => Result): (text: string) => Result {
  const results = new Map<string, Result>()
  return text => {
    const known = results.get(text)
    if (known !== undefined) return known
    if (text.length > MAX_KEPT_CHARS) return compute(text)
    if (results.size >= MAX_RESULTS) results.clear()
    // The result may be a part of the text.
    const kept = ownCopy(text)
    const result = compute(kept)
    results.set(kept, result)
    return result
  }
}

/**
 * A copy of a text that is kept longer than its request: V8 cuts a text by pointing into the whole one, which may be a header of
 * 16 KB or a body, and then stays in memory too.
 */
export function ownCopy(text: string): string {
  return JSON.parse(JSON.stringify(text))
}
