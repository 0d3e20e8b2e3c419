import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { listen } from './listen.ts'
import type { AtEnd } from './open-test-app.ts'

/** How a server meets one request, whose body has arrived. */
export type Step = (response: ServerResponse, request: ReceivedRequest) => void

export interface ReceivedRequest {
  readonly method: string | undefined
  readonly path: string | undefined
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface ScriptedServer {
  readonly url: string
  readonly requests: readonly ReceivedRequest[]
}

/** A server that meets each request as the next step says, and all further ones as the last. `atEnd` is that of `listen`. */
export async function openScriptedServer(
  steps: readonly Step[],
  atEnd: AtEnd = onTestFinished,
): Promise<ScriptedServer> {
  const requests: ReceivedRequest[] = []
  const server = createServer(async (request, response) => {
    const { method, url: path, headers } = request
    const received = { method, path, headers, body: await text(request) }
    requests.push(received)
    const step = steps[Math.min(requests.length, steps.length) - 1]
    step?.(response, received)
  })
  atEnd(() => server.closeAllConnections())
  const port = await listen(server, { atEnd })
  return { url: `http://127.0.0.1:${port}`, requests }
}

/** An answer as the service makes it; a `body` of text is sent as it is. */
export function answer(
  status: number,
  body: object | string = '',
  headers: Readonly<Record<string, string>> = {},
): Step {
  return response => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
}

/** The service refuses. */
export function refuse(
  status: number,
  reason: string,
  headers: Readonly<Record<string, string>> = {},
): Step {
  return answer(status, { message: `refused as ${reason}`, reason, code: status }, headers)
}

/** The connection breaks once the request has arrived. */
export const breakOff: Step = response => response.destroy()

/** The connection breaks in the middle of the answer. */
export const breakWithin: Step = response => {
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '100' })
  response.write('{"id": 1, "na', () => response.destroy())
}

/** Nothing is ever answered. */
export const staySilent: Step = () => {}
