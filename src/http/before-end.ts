import type { Response } from 'express'

declare global {
  namespace Express {
    interface Response {
      /** What `beforeEnd` was given. */
      workBeforeEnd?: EndWork[] | undefined
    }
  }
}

/** Work that needs the final status of a response. */
type EndWork = (status: number) => Promise<void>

/** Does some work when a response is complete. It is sent after that, also if the work fails. */
export function beforeEnd(response: Response, work: EndWork): void {
  response.workBeforeEnd ??= []
  response.workBeforeEnd.push(work)
}

/** Ends a response that is complete. */
export function endResponse(response: Response, body?: string | Buffer): void {
  if (response.workBeforeEnd === undefined) response.end(body)
  else sendAfterWork(response, () => response.end(body))
}

/**
 * For a handler that may call `response.end` itself: replaces it by one that does the work first. `onFailure` gets what `end`
 * throws after that, when its caller cannot catch it any more; the response is then broken off.
 */
export function replaceEnd(response: Response, onFailure: (error: unknown) => void) {
  const { end } = response
  let isHeld = false
  if (response.workBeforeEnd !== undefined) {
    response.end = ((...args: unknown[]) => {
      if (!isHeld) sendAfterWork(response, () => Reflect.apply(end, response, args), onFailure)
      isHeld = true
      return response
    }) as Response['end']
  }
  return {
    /** Whether the handler has ended the response, which may not be sent yet. */
    isHeld: () => isHeld,
    restore: () => {
      response.end = end
    },
  }
}

function sendAfterWork(
  response: Response,
  send: () => void,
  onFailure?: (error: unknown) => void,
): void {
  const { workBeforeEnd = [], statusCode } = response
  response.workBeforeEnd = undefined
  const done = Promise.allSettled(workBeforeEnd.map(work => work(statusCode)))
  void done.then(send).catch(error => {
    onFailure?.(error)
    response.destroy()
  })
}
