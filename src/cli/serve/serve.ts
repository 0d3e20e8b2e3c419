import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isatty } from 'node:tty'
import type { Logger } from 'pino'
import { unknownInWords } from '../../config/did-you-mean.ts'
import { type Config, type Environment, readSettings } from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'
import type { CheckedLimits } from '../../limits/kinds/kinds.ts'
import { createLogger, type FlushableLogger } from '../../ops/logger.ts'
import { readVersion } from '../../platform/package.ts'
import { openService, type Service } from '../../service.ts'
import { engineOf } from '../../wiring/engines.ts'
import { openPasswords } from '../../wiring/open-passwords.ts'
import {
  MANAGEMENT_CONNECTIONS,
  type ManagementPort,
  openManagementPort,
  openPublicPort,
  stopPorts,
} from './ports.ts'
import {
  awaitCrash,
  type Reloads,
  type Signals,
  STOP_SIGNALS,
  watchReloads,
  watchSignals,
} from './signals.ts'

/**
 * File descriptors for everything but connections: the database with its temporary files, the log, the event loop, a limits
 * file.
 */
const RESERVED_FILES = 64

/** How long closing the database may take once all requests are answered or cut off. */
const CLOSING_MS = 5000

/**
 * Serves until a signal stops it. Returns the exit code: 0 if all requests were answered, or if it did not listen yet; 1 after
 * a timeout, a second signal or an uncaught exception. Throws `OperatorError` if it cannot start. `options` win over the
 * variables of the process.
 */
export async function serve(
  environment: Record<string, string | undefined>,
  options: Environment,
): Promise<number> {
  const read = readSettings({ ...environment, ...options })
  // Without rules to read again, SIGHUP says that the terminal has gone.
  const isHangup = read.config.limitsFile === undefined && [0, 1, 2].some(isatty)
  const reloads = watchReloads(isHangup ? [] : ['SIGHUP'])
  let signals: Signals | undefined
  try {
    const settings = await loadLimits(read)
    engineOf(settings.config.database).keepTemporaryFiles(environment)
    // Not before: only the default action ends a process in which a module of limits never ends.
    signals = watchSignals(isHangup ? [...STOP_SIGNALS, 'SIGHUP'] : STOP_SIGNALS)
    const openFiles = readOpenFilesLimit()
    const maxConnections = limitConnections(settings.config, openFiles)
    const config = { ...settings.config, maxConnections }
    const logger = await createLogger(config)
    logStart(logger.log, settings, { openFiles, maxConnections })
    const parts = { config, limits: settings.limits, logger, signals, reloads }
    return await openAndServe(parts).finally(() => logger.flush())
  } catch (error) {
    // Only if it did not start: after it has served, a signal would replace the exit code.
    signals?.end()
    reloads.end()
    throw error
  }
}

type LoadedSettings = Awaited<ReturnType<typeof loadLimits>>

/**
 * Adds the rules of the limits to settings. Throws `OperatorError` with a line for each mistake in either, and in the list of
 * passwords.
 */
async function loadLimits({ config, problems, unknown }: ReturnType<typeof readSettings>) {
  const mistakes = [...problems]
  /** `undefined` without LIMITS_FILE. */
  let limits: CheckedLimits | undefined
  const addMistakes = (error: unknown): void => {
    if (!(error instanceof OperatorError)) throw error
    mistakes.push(...error.problems)
  }
  if (config.limitsFile !== undefined) {
    try {
      // Imported only if there are rules, as in `wiring/service-parts.ts`.
      const { readLimits } = await import('../../wiring/open-limits.ts')
      limits = await readLimits(config.limitsFile)
    } catch (error) {
      addMistakes(error)
    }
  }
  // Otherwise the service reports it.
  if (mistakes.length > 0) {
    await openPasswords(config).then(({ close }) => close(), addMistakes)
  }
  // A mistyped name may be the cause of the other mistakes.
  if (mistakes.length > 0) throw new OperatorError([...mistakes, ...unknown.map(unknownInWords)])
  return { config, limits, unknown }
}

interface ServeParts extends Pick<LoadedSettings, 'config' | 'limits'> {
  readonly signals: Signals
  readonly reloads: Reloads
  /** Nothing has been released yet. */
  readonly logger: FlushableLogger
}

async function openAndServe(parts: ServeParts): Promise<number> {
  const { config, limits, logger, signals, reloads } = parts
  const { log, release } = logger
  const opening = openService({ config, log, limits }).then(async service => {
    reloads.begin(service.limits.reload)
    const crash = awaitCrash(log)
    return { service, crash, management: await listenOrClose(parts, service) }
  })
  const opened = await Promise.race([opening, signals.first])
  release()
  if (opened === 'signal') {
    // The database, or the name server of HOST, may be away for long. Nobody is left to tell what fails now.
    opening.catch(() => {})
    log.info('stopped before it was ready')
    return 0
  }
  const { service, crash, management } = opened
  if ((await Promise.race([signals.first, crash])) === 'crash') return 1
  log.info('stopping')
  const timeoutMs = config.shutdownTimeoutMs
  const stopping = [
    stopPorts(service.server, management, timeoutMs),
    service.stopWebhooks(timeoutMs),
  ]
  const stopped = Promise.all(stopping).then(isComplete => isComplete.every(Boolean))
  const end = await Promise.race([stopped, signals.second, crash])
  if (end === true) log.info('stopped')
  else log.warn({ reason: end === false ? 'timeout' : end }, 'stopped with unanswered requests')
  if (typeof end === 'string') return 1
  const late = sleep(CLOSING_MS, 'timeout', { ref: false })
  const closed = await Promise.race([service.close(), late, signals.second, crash])
  if (closed !== undefined) log.warn({ reason: closed }, 'stopped with an open database')
  return end && closed === undefined ? 0 : 1
}

/** Listens for operators, if the settings want that, and then for clients. */
async function listenOrClose(
  { config, reloads, logger: { log } }: ServeParts,
  service: Service,
): Promise<ManagementPort | undefined> {
  let management: ManagementPort | undefined
  try {
    const operations = service.operations && {
      ...service.operations,
      reloadLimits: reloads.request,
    }
    management = await openManagementPort({ config, log, operations })
    await openPublicPort(service.server, { config, log })
    management?.logAddress()
    return management
  } catch (error) {
    await management?.close()
    await service.close()
    throw error
  }
}

function logStart(
  log: Logger,
  { config, limits, unknown }: LoadedSettings,
  { openFiles, maxConnections }: { openFiles: number | undefined; maxConnections: number },
): void {
  const rules = Object.values(limits ?? {}).flat().length
  log.info({ version: readVersion(), database: config.database.url, rules }, 'starting')
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

/**
 * How many files this process may have open; `undefined` if the system does not say or sets no limit. This is the soft
 * limit. Node has already raised it to the hard limit at its start, so it cannot be raised any more.
 */
function readOpenFilesLimit(): number | undefined {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const [, limit] = /^Max open files +(\d+)/m.exec(limits) ?? []
    return limit === undefined ? undefined : Number(limit)
  } catch {
    // Only Linux has this file.
    return undefined
  }
}

/** How many connections of clients fit into `openFiles` files: at least 1, at most MAX_CONNECTIONS. */
function limitConnections(
  { maxConnections, managementPort }: Config,
  openFiles = Infinity,
): number {
  const managementFiles = managementPort === undefined ? 0 : MANAGEMENT_CONNECTIONS
  return Math.min(maxConnections, Math.max(1, openFiles - RESERVED_FILES - managementFiles))
}
