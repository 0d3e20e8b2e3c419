import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import { onTestFinished } from 'vitest'

/** Lets a server listen on a free port of 127.0.0.1, or on a Unix socket, until the test ends. Returns the port. */
export async function listen(server: Server, socketPath?: string): Promise<number> {
  if (socketPath === undefined) server.listen(0, '127.0.0.1')
  else server.listen(socketPath)
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
