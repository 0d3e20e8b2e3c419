import type { EndedRequest } from '../http/request-log.ts'

/** How many of each reason are kept, so that a flood of one hides no other. There are as many reasons as codes of errors. */
const MAX_OF_REASON = 5

/** The most that are shown. */
const MAX_SHOWN = 50

/** Overwritten in turn: a flood of errors must cost little. */
interface Ring {
  readonly errors: { readonly request: EndedRequest; readonly atMs: number }[]
  added: number
}

export type NewestErrors = ReturnType<typeof createNewestErrors>

/** The newest requests that were answered with an error, without anything that a client chose but the id of its request. */
export function createNewestErrors(now: () => number) {
  const byReason = new Map<string | undefined, Ring>()

  return {
    add: (request: EndedRequest): void => {
      const { reason } = request
      const ring = byReason.get(reason) ?? { errors: [], added: 0 }
      if (ring.added === 0) byReason.set(reason, ring)
      ring.errors[ring.added++ % MAX_OF_REASON] = { request, atMs: now() }
    },

    /** The newest first. */
    read: () =>
      [...byReason.values()]
        .flatMap(({ errors }) => errors)
        .sort((one, other) => other.atMs - one.atMs)
        .slice(0, MAX_SHOWN)
        .map(({ atMs, request: { requestId, method, route, status, reason } }) => {
          const at = new Date(atMs).toISOString()
          return { at, request_id: requestId, method, route, status, reason: reason ?? null }
        }),
  }
}
