import type { EndedRequest } from '../http/request-log.ts'

/** How many of each reason are kept, so that a flood of one hides no other. There are as many reasons as codes of errors. */
const MAX_OF_REASON = 5

/** The most that are shown. */
const MAX_SHOWN = 50

/** The newest requests that were answered with an error, without anything that a client chose but the id of its request. */
export function createNewestErrors(now: () => number) {
  const byReason = new Map<
    string | undefined,
    { request: EndedRequest; nth: number; at: string }[]
  >()
  let count = 0

  return {
    add: (request: EndedRequest): void => {
      const { reason } = request
      const errors = byReason.get(reason) ?? []
      const error = { request, nth: count++, at: new Date(now()).toISOString() }
      if (errors.push(error) === 1) byReason.set(reason, errors)
      if (errors.length > MAX_OF_REASON) errors.shift()
    },

    /** The newest first, whatever the clock does. */
    read: () =>
      [...byReason.values()]
        .flat()
        .sort((one, other) => other.nth - one.nth)
        .slice(0, MAX_SHOWN)
        .map(({ at, request: { requestId, method, route, status, reason } }) => ({
          ...{ at, request_id: requestId, method, route, status, reason: reason ?? null },
        })),
  }
}
