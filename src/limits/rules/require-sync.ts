/** Returns the result of a function of a rule. Throws if it is a promise: rules are evaluated synchronously. */
export function requireSync<T>(value: T): T {
  if (typeof value !== 'object' || value === null || !('then' in value)) return value
  // Nobody else handles its rejection, which would end the process.
  Promise.resolve(value).catch(() => {})
  throw new TypeError('a function of a rule must answer at once')
}
