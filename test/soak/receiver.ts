import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
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
    for (const { id, user } of data) {
      if (user === null) copy.delete(id)
      else copy.set(id, user)
    }
  }

  const server = createServer(async (request, response) => {
    const body = (await json(request)) as Posted['body']
    try {
      const headers = request.headers as Record<string, string>
      if (secret !== undefined) new Webhook(secret).verify(JSON.stringify(body), headers)
      if (Math.random() * 100 < REFUSED) response.writeHead(503, { 'Retry-After': '1' }).end()
      else {
        take(body)
        response.writeHead(204).end()
      }
    } catch (error) {
      mistakes.push(`a webhook: ${error}`)
      response.writeHead(400).end()
    }
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
