import type { Logger } from 'pino'
import type { Config } from '../../config/settings.ts'
import { createHostLog } from '../../http/throttled-log.ts'
import { createHttpServer, type HttpServer } from '../../server/server.ts'
import { createStopping } from '../../server/stop.ts'
import { createManagementApp } from './management-app.ts'
import type { Operations } from './operations-router.ts'
import { createStatusHistory } from './status-history.ts'

export interface ManagementOptions {
  readonly config: Config
  readonly maxConnections: number
  readonly log: Logger
  readonly operations: Operations
}

/** High enough that a busy public port turns no operator away. */
const CAPACITY = { maxEventLoopDelayMs: 60_000, maxWaitingRequests: 1000 }

/**
 * The server of the management port, which does not listen yet. It has its own admission, so it stays reachable during a
 * flood of the public port.
 */
export function createManagementServer(options: ManagementOptions): HttpServer {
  const { config, operations, maxConnections } = options
  const { clocks } = operations
  const log = options.log.child({ port: 'management' })
  const history = createStatusHistory(operations.count, clocks)
  const stopping = createStopping()
  const app = createManagementApp({
    ...{ operations, history, log, settings: config },
    onHostRefused: createHostLog({ log, ...clocks }),
  })
  stopping.begin.then(history.close)
  const server = createHttpServer({
    ...{ app, stopping, log, capacity: { ...CAPACITY, maxConnections } },
    keepAliveTimeoutMs: config.keepAliveTimeoutMs,
    onLateRequest: operations.readAnew,
  })
  const listen: HttpServer['listen'] = async address => {
    const bound = await server.listen(address)
    history.start()
    return bound
  }
  return { ...server, listen }
}
