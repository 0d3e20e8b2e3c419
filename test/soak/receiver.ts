import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { apply } from '../faults/followers.ts'
import type { Posted } from '../support/webhook-receiver.ts'

/** How many of a hundred messages it refuses at first. */
const REFUSED = 2

/** A server that keeps a copy of the users by the messages of a webhook, as a follower does by the feed. */
export async function openReceiver() {
  const copy = new Map<number, unknown>()
  const mistakes: string[] = []
  let secret: string | undefined
  let restarts = 0

  function take({ type, data }: Posted['body']): void {
    if (type === 'users.reset') {
      copy.clear()
      restarts++
    }
    for (const entry of data) apply(copy, entry)
  }

  const server = createServer(async (request, response) => {
    const body = await text(request)
    try {
      if (secret !== undefined)
        new Webhook(secret).verify(body, request.headers as Record<string, string>)
    } catch (error) {
      mistakes.push(`a webhook: ${error}`)
      response.writeHead(400).end()
      return
    }
    const isTaken = Math.random() * 100 >= REFUSED
    if (isTaken) take(JSON.parse(body))
    response.writeHead(isTaken ? 204 : 503, { 'Retry-After': '1' }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    copy: copy as ReadonlyMap<number, unknown>,
    mistakes,
    /** How often it had to begin again. */
    restarts: () => restarts,
    /** From now on messages must be signed with this. */
    expectSecret: (value: string) => {
      secret = value
    },
    stop: async (): Promise<void> => {
      server.close().closeAllConnections()
    },
  }
}
