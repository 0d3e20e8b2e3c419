import type { Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'

/** Both ends of a connection within this process. */
export interface InnerConnection {
  readonly client: Duplex
  /** For `HttpServer.accept`. */
  readonly server: Socket
}

/** A connection that needs no port, and whose client appears at `remoteAddress`. */
export function createInnerConnection(remoteAddress: string): InnerConnection {
  const [client, server] = duplexPair()
  const traits = { remoteAddress, destroySoon: () => server.end() }
  return { client, server: Object.assign(server, traits) as unknown as Socket }
}
