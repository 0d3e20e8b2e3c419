import type { Response } from 'express'

declare global {
  namespace Express {
    interface Response {
      /** The work that `beforeEnd` was given and that has not begun. */
      workBeforeEnd?: readonly EndWork[] | undefined
    }
  }
}

interface EndWork {
  readonly statuses: ReadonlySet<number>
  readonly work: () => Promise<void>
}

/** Does some work when a response with one of these statuses is complete. It is sent after that, also if the work fails. */
export function beforeEnd(
  response: Response,
  statuses: ReadonlySet<number>,
  work: () => Promise<void>,
): void {
  response.workBeforeEnd = [...(response.workBeforeEnd ?? []), { statuses, work }]
}

/** Ends a response that is complete, at once unless it must wait. Throws, or rejects then, with what `end` throws. */
export function endResponse(response: Response, body?: string | Buffer): Promise<void> | undefined {
  if (response.workBeforeEnd !== undefined) {
    return sendAfterWork(response, () => response.end(body))
  }
  response.end(body)
  return undefined
}

/**
 * For a handler that may call `response.end` itself: replaces it by one that does the work first. `onFailure` gets what `end`
 * throws after that, when its caller cannot catch it any more.
 */
export function replaceEnd(response: Response, onFailure: (error: unknown) => void) {
  const { end } = response
  const restore = () => {
    response.end = end
  }
  let isHeld = false
  if (response.workBeforeEnd !== undefined) {
    response.end = ((...args: unknown[]) => {
      if (isHeld) return response
      const sending = sendAfterWork(response, () => Reflect.apply(end, response, args))
      isHeld = sending !== undefined
      if (!isHeld) restore()
      sending?.catch(error => {
        isHeld = false
        onFailure(error)
      })
      return response
    }) as Response['end']
  }
  return {
    /** Whether the handler has ended the response, which may not be sent yet. */
    isHeld: () => isHeld,
    restore,
  }
}

/** Returns `undefined` if no work had to be waited for. */
function sendAfterWork(response: Response, send: () => void): Promise<void> | undefined {
  const { workBeforeEnd = [], statusCode } = response
  const due = workBeforeEnd.filter(({ statuses }) => statuses.has(statusCode))
  if (due.length === 0) {
    send()
    return undefined
  }
  // All work is done once, also if this answer cannot be sent and another one follows.
  response.workBeforeEnd = workBeforeEnd.filter(work => !due.includes(work))
  return Promise.allSettled(due.map(({ work }) => work())).then(() => {
    // A handler may have set another one since, which nothing was asked about.
    response.statusCode = statusCode
    send()
  })
}
