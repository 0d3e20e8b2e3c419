const MAX_REMEMBERED = 10_000

/** `compute`, which is not asked again for what it was asked of late. */
export function remembering<T>(compute: (text: string) => T): (text: string) => T {
  const results = new Map<string, T>()
  return text => {
    let result = results.get(text)
    if (result === undefined) {
      if (results.size >= MAX_REMEMBERED) results.clear()
      result = compute(text)
      results.set(text, result)
    }
    return result
  }
}
