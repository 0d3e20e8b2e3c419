import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import {
  type Config,
  describeProblem,
  type Environment,
  findGivenName,
  type SettingOptions,
} from '../../config.ts'
import { OperatorError } from '../../errors.ts'
import { maskCredentials } from '../../mask-credentials.ts'
import { createLogger } from '../../ops/logger.ts'
import { readVersion } from '../../version.ts'
import { type LoadedSettings, loadSettings } from '../../wiring/load-settings.ts'
import { openService, type Service } from '../../wiring/open-service.ts'
import { limitConnections, readOpenFilesLimit } from './open-files.ts'

/**
 * A second signal within this time is an echo of the first: `npm start` forwards a Ctrl-C that the terminal has already
 * sent to this process.
 */
const SIGNAL_ECHO_MS = 500

/**
 * Serves until a signal stops it. Returns the exit code: 0 if all requests were answered (none before it listens), 1 after a timeout, a second
 * signal or an uncaught exception. Throws `OperatorError` if it cannot start.
 */
export async function serve(
  environment: Environment,
  options: SettingOptions = {},
): Promise<number> {
  const signals = watchSignals()
  const reloads = watchReloads()
  const settings = await loadSettings(environment, options)
  const openFiles = readOpenFilesLimit()
  const maxConnections = limitConnections(openFiles, settings.config.maxConnections)
  const config = { ...settings.config, maxConnections }
  const { log, release, flush } = await createLogger(config)
  logStart(log, settings, { openFiles, maxConnections })
  const opening = openService({ config, log, limits: settings.limits })
  const service = await Promise.race([opening, signals.first])
  if (service === 'signal') {
    // The database may be away for long. What fails now has no one to tell.
    opening.catch(() => {})
    log.info('stopped before it was ready')
    release()
    await flush()
    return 0
  }
  reloads.begin(service.reloadLimits)
  const crash = new Promise<'crash'>(resolve => {
    process.once('uncaughtException', err => {
      log.fatal({ err }, 'crashed')
      resolve('crash')
    })
  })
  try {
    const address = await listen(service, config, options)
    logAddress(log, config, address)
    release()

    if ((await Promise.race([signals.first, crash])) === 'crash') return 1
    log.info('stopping')
    const stopped = service.server.stop(config.shutdownTimeoutMs)
    const end = await Promise.race([stopped, signals.second, crash])
    if (end === true) log.info('stopped')
    else log.warn({ reason: end === false ? 'timeout' : end }, 'stopped with unanswered requests')
    if (typeof end === 'string') return 1
    await service.close()
    return end ? 0 : 1
  } finally {
    await flush()
  }
}

function logStart(
  log: Logger,
  { config, limits, unknown }: LoadedSettings,
  { openFiles, maxConnections }: { openFiles: number | undefined; maxConnections: number },
): void {
  const rules = Object.values(limits ?? {}).flat().length
  const database = maskCredentials(config.database.url)
  log.info({ version: readVersion(), database, rules }, 'starting')
  for (const { name, source, didYouMean } of unknown) {
    log.warn({ variable: name, source, didYouMean }, 'unknown setting')
  }
  if (maxConnections < config.maxConnections) {
    const wanted = config.maxConnections
    log.warn(
      { openFiles, maxConnections, wanted },
      'MAX_CONNECTIONS lowered to fit the open files limit',
    )
  }
}

function logAddress(log: Logger, { port, logLevel }: Config, address: AddressInfo): void {
  if (!/^(127\.|::1$|::ffff:127\.)/.test(address.address)) {
    log.warn({ host: address.address }, 'listening beyond loopback without authentication')
  }
  // A port that the system picked is logged at every level but `silent`, because nobody could know it otherwise.
  const isPicked = port === 0 && logLevel !== 'silent'
  const addressLog = isPicked ? log.child({}, { level: 'info' }) : log
  const url = urlOf(address)
  const { address: host } = address
  addressLog.info({ url, docs: `${url}/docs`, host, port: address.port }, 'listening')
}

/** On SIGHUP, reloads one at a time, so that the newest file is in force at the end. Signals before `begin` wait for it. */
function watchReloads(): { begin(reload: () => Promise<void>): void } {
  let begin: (reload: () => Promise<void>) => void = () => {}
  const begun = new Promise<() => Promise<void>>(resolve => {
    begin = resolve
  })
  let reading = Promise.resolve()
  process.on('SIGHUP', () => {
    reading = reading.then(async () => (await begun)())
  })
  return { begin }
}

interface Signals {
  readonly first: Promise<'signal'>
  /** The next signal that is not an echo of the first. */
  readonly second: Promise<'signal'>
}

function watchSignals(): Signals {
  let firstAt: number | undefined
  let resolveFirst: (value: 'signal') => void
  let resolveSecond: (value: 'signal') => void
  const first = new Promise<'signal'>(resolve => {
    resolveFirst = resolve
  })
  const second = new Promise<'signal'>(resolve => {
    resolveSecond = resolve
  })
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (firstAt === undefined) {
        firstAt = performance.now()
        resolveFirst('signal')
      } else if (performance.now() - firstAt > SIGNAL_ECHO_MS) resolveSecond('signal')
    })
  }
  return { first, second }
}

async function listen(
  { server, close }: Service,
  { host, port }: Config,
  options: SettingOptions,
): Promise<AddressInfo> {
  try {
    return await server.listen({ host, port })
  } catch (cause) {
    await close()
    const { code } = cause as NodeJS.ErrnoException
    const wrong = (name: 'HOST' | 'PORT', value: string, why: string) =>
      new OperatorError([describeProblem(findGivenName(name, options), value, why)], { cause })
    if (code === 'EADDRINUSE') throw wrong('PORT', `${port}`, `it is in use on ${host}`)
    if (code === 'EACCES') throw wrong('PORT', `${port}`, 'this user may not listen on it')
    throw wrong('HOST', host, `it cannot be listened on (${code})`)
  }
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
