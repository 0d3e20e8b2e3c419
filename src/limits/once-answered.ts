import type { Response } from 'express'

/**
 * Does some work once a request is answered with one of these statuses: when its response is sent, or when its status is decided
 * after its client has left. A client may hang up during a slow check of a password, and is counted all the same.
 */
export function onceAnswered(
  response: Response,
  statuses: ReadonlySet<number>,
  work: () => void,
): void {
  const answer = (status: number) => {
    if (statuses.has(status)) work()
  }
  response.once('finish', () => answer(response.statusCode))
  response.once('close', () => {
    if (response.writableFinished) return
    if (response.headersSent) return answer(response.statusCode)
    const { writeHead } = response
    response.writeHead = ((...args: Parameters<typeof writeHead>) => {
      response.writeHead = writeHead
      answer(args[0])
      return response.writeHead(...args)
    }) as typeof writeHead
  })
}
