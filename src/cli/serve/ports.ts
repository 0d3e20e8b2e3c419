import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import {
  type Config,
  describeProblem,
  NEEDS_TOKEN,
  type VariableName,
} from '../../config/settings.ts'
import { isLoopback } from '../../config/values.ts'
import { OperatorError } from '../../errors.ts'
import type { Operations } from '../../ops/management/operations-router.ts'
import type { HttpServer } from '../../server/server.ts'

/** Listens for clients, and logs where. Throws `OperatorError`, which names the setting that is wrong. */
export async function openPublicPort(
  server: HttpServer,
  { config, log }: Omit<ManagementPortOptions, 'operations'>,
): Promise<void> {
  const { host, port, managementPort, apiKeys } = config
  const sharedWith = port === managementPort ? 'MANAGEMENT_PORT' : undefined
  const address = await listen(server, { host, port, prefix: '', sharedWith })
  if (!isLoopback(address.address) && apiKeys !== 'required') {
    log.warn({ host: address.address }, 'listening beyond loopback without authentication')
  }
  const url = urlOf(address)
  const fields = { url, docs: `${url}/docs`, host: address.address, port: address.port }
  addressLog(log, config, port).info(fields, 'listening')
}

/** The port on which operators watch and control the service. */
export type ManagementPort = NonNullable<Awaited<ReturnType<typeof openManagementPort>>>

export interface ManagementPortOptions {
  readonly config: Config
  readonly log: Logger
  /** `undefined` without a management port. */
  readonly operations: Operations | undefined
}

/** The most connections of operators and monitoring. Files are reserved for them. */
export const MANAGEMENT_CONNECTIONS = 64

const CLOSE_TIMEOUT_MS = 1000

/**
 * Opens the management port; `undefined` if the settings want none. Throws `OperatorError` for an address that cannot be
 * listened on, and for one beyond loopback without a token.
 */
export async function openManagementPort(options: ManagementPortOptions) {
  const { config, log, operations } = options
  const { managementHost: host, managementPort: port, managementToken: token } = config
  if (port === undefined || operations === undefined) return undefined
  const { createManagementServer } = await import('../../ops/management/management-server.ts')
  const server = createManagementServer({
    ...{ config, log, operations },
    maxConnections: MANAGEMENT_CONNECTIONS,
  })
  const address = await listen(server, { host, port, prefix: 'MANAGEMENT_' })
  if (token === undefined && !isLoopback(address.address)) {
    await server.stop(0)
    throw new OperatorError([describeProblem('MANAGEMENT_HOST', host, NEEDS_TOKEN)])
  }
  return {
    address,
    /** Call it after the line about the public port, which is the one that programs look for. */
    logAddress: () => {
      const fields = { url: urlOf(address), host: address.address, port: address.port }
      addressLog(log, config, port).info(fields, 'management port listens')
    },
    /** Resolves to whether every request was answered within `timeoutMs`; the rest are cut off. */
    close: (timeoutMs = CLOSE_TIMEOUT_MS) => server.stop(timeoutMs),
  }
}

/**
 * Stops the port for clients, and then that for operators. Resolves to whether every request was answered within `timeoutMs`;
 * operators have a second at least.
 */
export async function stopPorts(
  server: HttpServer,
  management: ManagementPort | undefined,
  timeoutMs: number,
): Promise<boolean> {
  const endsAt = performance.now() + timeoutMs
  const isComplete = await server.stop(timeoutMs)
  const leftMs = Math.max(endsAt - performance.now(), CLOSE_TIMEOUT_MS)
  const isManagementComplete = await management?.close(leftMs)
  return isComplete && isManagementComplete !== false
}

/** Where a server listens. */
interface Binding {
  readonly host: string
  readonly port: number
  /** The prefix of the names of its settings. */
  readonly prefix: '' | 'MANAGEMENT_'
  /** Another setting with the same port. */
  readonly sharedWith?: VariableName | undefined
}

async function listen(
  server: HttpServer,
  { host, port, prefix, sharedWith }: Binding,
): Promise<AddressInfo> {
  try {
    return await server.listen({ host, port })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const wrong = (name: VariableName, value: string, why: string) =>
      new OperatorError([describeProblem(name, value, why)], { cause })
    if (code === 'EADDRINUSE') {
      const besides = sharedWith === undefined ? '' : `, and ${sharedWith} is the same`
      throw wrong(`${prefix}PORT`, `${port}`, `it is in use on ${host}${besides}`)
    }
    if (code === 'EACCES') throw wrong(`${prefix}PORT`, `${port}`, 'this user may not listen on it')
    throw wrong(`${prefix}HOST`, host, `it cannot be listened on (${code})`)
  }
}

/** For a line with an address. A port that the system picked is logged at every level but `silent`: only this line says it. */
function addressLog(log: Logger, { logLevel }: Config, port: number): Logger {
  const isPicked = port === 0 && logLevel !== 'silent'
  return isPicked ? log.child({}, { level: 'info' }) : log
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
