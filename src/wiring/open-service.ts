import { randomUUID } from 'node:crypto'
import { createHttpServer, type HttpServer, type Timeouts } from '../http/server/server.ts'
import { createStopping } from '../http/server/stopping.ts'
import { type AppOptions, type OpenApp, openApp } from './open-app.ts'

export interface Service extends Omit<OpenApp, 'app' | 'readAnew'> {
  readonly server: HttpServer
  isStopping(): boolean
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
  const { app, readAnew, ...opened } = await openApp({
    ...options,
    stopping,
    newRequestId,
    isOnLoopback: () => server?.isOnLoopback() ?? false,
  })
  server = createHttpServer({
    ...options,
    app,
    stopping,
    newRequestId,
    capacity: config,
    onLateRequest: readAnew,
  })
  return { server, isStopping: stopping.hasBegun, ...opened }
}
