import type { Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'

/** Both ends of a connection that needs no port, whose client has whatever address is wanted. */
export interface InnerConnection {
  readonly client: Duplex
  /** For `HttpServer.accept`. */
  readonly server: Socket
}

export function createInnerConnection(remoteAddress: string): InnerConnection {
  const [client, server] = duplexPair()
  const traits = { remoteAddress, destroySoon: () => server.end() }
  return { client, server: Object.assign(server, traits) as unknown as Socket }
}
