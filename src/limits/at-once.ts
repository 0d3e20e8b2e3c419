/** What a function of a rule gave, which must be at hand: nobody waits for a promise, nor hears its rejection. */
export function atOnce<T>(value: T): T {
  if (typeof value !== 'object' || value === null || !('then' in value)) return value
  Promise.resolve(value).catch(() => {})
  throw new TypeError('a function of a rule must answer at once')
}
