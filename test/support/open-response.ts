import { get, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { onTestFinished } from 'vitest'

/** The head of the answer to a GET, of which nothing more is read yet. Its connection ends with the test. */
export function openResponse(
  port: number,
  path: string,
  headers: OutgoingHttpHeaders = {},
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = get({ port, path, headers, agent: false }, response => {
      resolve(response.on('error', () => {}))
    })
    request.on('error', reject)
    onTestFinished(() => void request.destroy())
  })
}
