import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { type Config, describeProblem, NEEDS_TOKEN } from '../../config/settings.ts'
import { isLoopback } from '../../config/values.ts'
import { OperatorError } from '../../errors.ts'
import type { Operations } from '../../ops/management/operations.ts'
import { addressLog, listen, urlOf } from './listen.ts'

/** The port on which operators watch and control the service. */
export interface ManagementPort {
  readonly address: AddressInfo
  /** Waits up to a second for the requests that still run. */
  close(): Promise<void>
}

export interface ManagementPortOptions {
  readonly config: Config
  readonly log: Logger
  readonly operations: Operations
}

/** The most connections of operators and monitoring. Files are reserved for them. */
export const MANAGEMENT_CONNECTIONS = 64

const CLOSE_TIMEOUT_MS = 1000

const SETTINGS = { host: 'MANAGEMENT_HOST', port: 'MANAGEMENT_PORT' } as const

/**
 * Opens the management port; `undefined` if the settings want none. Throws `OperatorError` for an address that cannot be
 * listened on, and for one beyond loopback without a token.
 */
export async function openManagementPort(
  options: ManagementPortOptions,
): Promise<ManagementPort | undefined> {
  const { config } = options
  const { managementHost: host, managementPort: port, managementToken: token } = config
  if (port === undefined) return undefined
  const { createManagementServer } = await import('../../management.ts')
  const server = createManagementServer({ ...options, maxConnections: MANAGEMENT_CONNECTIONS })
  const address = await listen(server, { host, port, settings: SETTINGS })
  if (token === undefined && !isLoopback(address.address)) {
    await server.stop(0)
    throw new OperatorError([describeProblem('MANAGEMENT_HOST', host, NEEDS_TOKEN)])
  }
  return { address, close: async () => void (await server.stop(CLOSE_TIMEOUT_MS)) }
}

/** Call it after the line about the public port, which is the one that programs look for. */
export function logManagementAddress(
  log: Logger,
  { managementPort: port, logLevel }: Pick<Config, 'managementPort' | 'logLevel'>,
  address: AddressInfo,
): void {
  const fields = { url: urlOf(address), host: address.address, port: address.port }
  addressLog(log, { port, logLevel }).info(fields, 'management port listens')
}
