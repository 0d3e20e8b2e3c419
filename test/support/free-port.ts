import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A free port of 127.0.0.1, for a server that comes back to its port after a while. It is below the ports that
 * connections get, so that none of them takes it meanwhile.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    const server = createServer().listen(port, '127.0.0.1')
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
