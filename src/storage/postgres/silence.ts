import type { Gateway } from './gateway.ts'
import type { Connection } from './open-connection.ts'

/**
 * Ends long work whose server no longer answers. A long statement is silent too, so silence alone proves nothing: after some
 * of it, a new connection asks whether the server is alive.
 */
export interface Silence {
  /** Watches a connection until the returned function is called. */
  watch(connection: Connection): () => void
  close(): void
}

const LOOK_EVERY_MS = 200

/** A statement without a result after this time counts as silent. */
const SILENT_AFTER_MS = 500

/** Watches no connection yet. `close` ends its timer. */
export function watchSilence(gateway: Pick<Gateway, 'probe'>): Silence {
  const watched = new Set<Connection>()
  let timer: NodeJS.Timeout | undefined
  let isProbing = false

  function silentConnections(): Connection[] {
    const latest = performance.now() - SILENT_AFTER_MS
    return [...watched].filter(({ waitingSince = Infinity }) => waitingSince < latest)
  }

  async function look(): Promise<void> {
    if (isProbing) return
    isProbing = true
    for (const [host, connection] of oneOfEachHost(silentConnections())) {
      try {
        await gateway.probe(connection)
      } catch (error) {
        const silent = silentConnections().filter(({ config }) => nameOf(config) === host)
        for (const one of silent) one.destroy(error as Error)
      }
    }
    isProbing = false
  }

  function stop(): void {
    clearInterval(timer)
    timer = undefined
  }

  return {
    watch: connection => {
      watched.add(connection)
      timer ??= setInterval(look, LOOK_EVERY_MS).unref()
      return () => {
        watched.delete(connection)
        if (watched.size === 0) stop()
      }
    },
    close: stop,
  }
}

function oneOfEachHost(connections: readonly Connection[]): ReadonlyMap<string, Connection> {
  return new Map(connections.map(connection => [nameOf(connection.config), connection]))
}

function nameOf({ host, port }: Connection['config']): string {
  return `${host}:${port}`
}
