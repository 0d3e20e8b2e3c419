import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import { onTestFinished } from 'vitest'
import type { AtEnd } from './open-test-app.ts'

export interface ListenOptions {
  /** In place of a free port of 127.0.0.1. */
  readonly socketPath?: string
  /** That of its context for a test that runs beside others: the one of vitest may take another of them for the current one. */
  readonly atEnd?: AtEnd
}

/** Lets a server listen on a free port of 127.0.0.1, or on a Unix socket, until the test ends. Returns the port. */
export async function listen(
  server: Server,
  { socketPath, atEnd = onTestFinished }: ListenOptions = {},
): Promise<number> {
  if (socketPath === undefined) server.listen(0, '127.0.0.1')
  else server.listen(socketPath)
  atEnd(() => void server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
