import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import {
  type Config,
  describeProblem,
  findGivenName,
  type SettingName,
  type SettingOptions,
} from '../../config/settings.ts'
import { isLoopback } from '../../config/values.ts'
import { OperatorError } from '../../errors.ts'
import type { HttpServer } from '../../server/server.ts'

/** Where a server listens, and the settings that say so. */
export interface Binding {
  readonly host: string
  readonly port: number
  readonly settings: { readonly host: SettingName; readonly port: SettingName }
  /** Another setting with the same port. */
  readonly sharedWith?: SettingName
}

/** The binding of the public port. */
export function publicBinding(
  { host, port, managementPort }: Pick<Config, 'host' | 'port' | 'managementPort'>,
  options: SettingOptions,
): Binding {
  const settings = { host: findGivenName('HOST', options), port: findGivenName('PORT', options) }
  return {
    ...{ host, port, settings },
    ...(port === managementPort && { sharedWith: 'MANAGEMENT_PORT' as const }),
  }
}

/** Listens there. Throws `OperatorError`, which names the setting that is wrong. */
export async function listen(
  server: HttpServer,
  { host, port, settings, sharedWith }: Binding,
): Promise<AddressInfo> {
  try {
    return await server.listen({ host, port })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const wrong = (name: SettingName, value: string, why: string) =>
      new OperatorError([describeProblem(name, value, why)], { cause })
    if (code === 'EADDRINUSE') {
      const besides = sharedWith === undefined ? '' : `, and ${sharedWith} is the same`
      throw wrong(settings.port, `${port}`, `it is in use on ${host}${besides}`)
    }
    if (code === 'EACCES') throw wrong(settings.port, `${port}`, 'this user may not listen on it')
    throw wrong(settings.host, host, `it cannot be listened on (${code})`)
  }
}

/** Logs where the service listens. */
export function logAddress(
  log: Logger,
  { port, logLevel, apiKeys }: Pick<Config, 'port' | 'logLevel' | 'apiKeys'>,
  address: AddressInfo,
): void {
  if (!isLoopback(address.address) && apiKeys !== 'required') {
    log.warn({ host: address.address }, 'listening beyond loopback without authentication')
  }
  const url = urlOf(address)
  const { address: host } = address
  const fields = { url, docs: `${url}/docs`, host, port: address.port }
  addressLog(log, { port, logLevel }).info(fields, 'listening')
}

/** For a line with an address. A port that the system picked is logged at every level but `silent`: nobody could know it otherwise. */
export function addressLog(
  log: Logger,
  { port, logLevel }: { readonly port: number | undefined } & Pick<Config, 'logLevel'>,
): Logger {
  const isPicked = port === 0 && logLevel !== 'silent'
  return isPicked ? log.child({}, { level: 'info' }) : log
}

export function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
