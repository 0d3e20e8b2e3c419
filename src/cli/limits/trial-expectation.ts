import type { TrialResult } from './trial-result.ts'

/** The values of `--expect`, about all requests together. */
export const EXPECTATIONS = ['allowed', 'denied'] as const

export type Expectation = (typeof EXPECTATIONS)[number]

/**
 * Why an expectation is not met, in one line; `undefined` if it is. `allowed` expects every request to pass. `denied` expects
 * the last one to be denied: the requests before it fill the window.
 */
export function whyUnexpected(
  expectation: Expectation,
  results: readonly TrialResult[],
): string | undefined {
  if (expectation === 'denied') {
    if (results.at(-1)?.deniedBy !== undefined) return undefined
    return `expected denied, but request ${results.length}, the last one, is allowed`
  }
  const index = results.findIndex(({ deniedBy }) => deniedBy !== undefined)
  const { deniedBy, status } = results[index] ?? {}
  if (deniedBy === undefined) return undefined
  const { type, rule } = deniedBy
  const refusal = `denied with ${status} by ${type} ${JSON.stringify(rule)}`
  return `expected allowed, but request ${index + 1} is ${refusal}`
}
