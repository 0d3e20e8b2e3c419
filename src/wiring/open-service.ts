import { randomUUID } from 'node:crypto'
import type { ServiceReport } from '../ops/metrics/service-report.ts'
import { createHttpServer, type HttpServer, type Timeouts } from '../server/server.ts'
import { createStopping } from '../server/stop.ts'
import { type AppOptions, type OpenApp, openApp } from './open-app.ts'

export interface Service extends Omit<OpenApp, 'app' | 'readAnew' | 'metrics'> {
  readonly server: HttpServer
  isStopping(): boolean
  /** What this process has counted, and how it is now. Rejects without a management port. */
  report(): Promise<ServiceReport>
}

export interface ServiceOptions
  extends Omit<AppOptions, 'newRequestId' | 'stopping' | 'isOnLoopback'> {
  readonly newRequestId?: () => string
  /** How long clients may take. The defaults of `createHttpServer` if left out. */
  readonly timeouts?: Timeouts
}

/** Opens the service, which does not listen yet. Throws `OperatorError` when it cannot be opened. */
export async function openService(options: ServiceOptions): Promise<Service> {
  const { config, newRequestId = randomUUID } = options
  const stopping = createStopping()
  let server: HttpServer | undefined
  const { app, readAnew, metrics, report, ...opened } = await openApp({
    ...options,
    stopping,
    newRequestId,
    isOnLoopback: () => server?.isOnLoopback() ?? false,
  })
  const http = createHttpServer({
    ...options,
    app,
    metrics,
    stopping,
    newRequestId,
    capacity: config,
    onLateRequest: readAnew,
  })
  server = http
  return {
    ...opened,
    server: http,
    isStopping: stopping.hasBegun,
    report: async () => ({ ...(await report()), server: http.report() }),
  }
}
