import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { createHttpServer, type HttpServer } from '../http/server/server.ts'
import { createStopping } from '../http/server/stopping.ts'
import { createManagementApp } from '../ops/management/management-app.ts'
import type { Operations } from '../ops/management/operations.ts'
import { createClocks } from './clocks.ts'
import { openLines, writeRefusedHost } from './shared-lines.ts'

export interface ManagementOptions {
  readonly config: Config
  readonly maxConnections: number
  readonly log: Logger
  readonly operations: Pick<Operations, 'checks' | 'report' | 'reloadLimits'>
}

/**
 * The server of the management port, which does not listen yet. It has an admission of its own, so that a flood of the public
 * port keeps nobody out of it.
 */
export function createManagementServer(options: ManagementOptions): HttpServer {
  const { config, operations, maxConnections } = options
  const log = options.log.child({ port: 'management' })
  const lines = openLines({ log, clocks: createClocks() })
  const stopping = createStopping()
  let server: HttpServer | undefined
  const app = createManagementApp({
    operations,
    log,
    newRequestId: randomUUID,
    isOnLoopback: () => server?.isOnLoopback() ?? false,
    onHostRefused: host => writeRefusedHost(host, lines),
    settings: config,
  })
  server = createHttpServer({
    app,
    stopping,
    log,
    newRequestId: randomUUID,
    capacity: { ...CAPACITY, maxConnections },
    onLateRequest: () => {},
  })
  return server
}

const CAPACITY = {
  // Nobody is to be sent away because the public port is busy.
  maxEventLoopDelayMs: 60_000,
  maxWaitingRequests: 1000,
}
