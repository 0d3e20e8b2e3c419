import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { type Config, describeProblem, findGivenName, type SettingOptions } from '../../config.ts'
import { OperatorError } from '../../errors.ts'
import { type HttpServer, isLoopback } from '../../http/server/server.ts'

/** Listens on the address of the settings. Throws `OperatorError`, which names the setting that is wrong. */
export async function listen(
  server: HttpServer,
  { host, port }: Pick<Config, 'host' | 'port'>,
  options: SettingOptions,
): Promise<AddressInfo> {
  try {
    return await server.listen({ host, port })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const wrong = (name: 'HOST' | 'PORT', value: string, why: string) =>
      new OperatorError([describeProblem(findGivenName(name, options), value, why)], { cause })
    if (code === 'EADDRINUSE') throw wrong('PORT', `${port}`, `it is in use on ${host}`)
    if (code === 'EACCES') throw wrong('PORT', `${port}`, 'this user may not listen on it')
    throw wrong('HOST', host, `it cannot be listened on (${code})`)
  }
}

/** Logs where the service listens. */
export function logAddress(
  log: Logger,
  { port, logLevel, apiKeys }: Pick<Config, 'port' | 'logLevel' | 'apiKeys'>,
  address: AddressInfo,
): void {
  if (!isLoopback(address) && apiKeys !== 'required') {
    log.warn({ host: address.address }, 'listening beyond loopback without authentication')
  }
  // A port that the system picked is logged at every level but `silent`, because nobody could know it otherwise.
  const isPicked = port === 0 && logLevel !== 'silent'
  const addressLog = isPicked ? log.child({}, { level: 'info' }) : log
  const url = urlOf(address)
  const { address: host } = address
  addressLog.info({ url, docs: `${url}/docs`, host, port: address.port }, 'listening')
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
