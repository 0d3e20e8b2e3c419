import type { Logger } from 'pino'
import type { Config, Environment, SettingOptions } from '../../config.ts'
import { maskCredentials } from '../../mask-credentials.ts'
import { createLogger, type FlushableLogger } from '../../ops/logger.ts'
import { readVersion } from '../../version.ts'
import { type LoadedSettings, loadSettings } from '../../wiring/load-settings.ts'
import { openService, type Service } from '../../wiring/open-service.ts'
import { createProcessOperations } from '../../wiring/process-operations.ts'
import { awaitCrash } from './crash.ts'
import { listen, logAddress, publicBinding } from './listen.ts'
import { limitConnections, readOpenFilesLimit } from './open-files.ts'
import {
  logManagementAddress,
  MANAGEMENT_CONNECTIONS,
  type ManagementPort,
} from './open-management-port.ts'
import { type Reloads, type Signals, watchReloads, watchSignals } from './signals.ts'
import type { ManagementThread } from './start-management.ts'

/** What serving takes, with one process or several. */
export interface ServeParts extends Pick<LoadedSettings, 'limits'> {
  readonly config: Config
  readonly options: SettingOptions
  /** Nothing has been released yet. */
  readonly logger: FlushableLogger
  readonly signals: Signals
  readonly reloads: Reloads
}

/**
 * Serves until a signal stops it. Returns the exit code: 0 if all requests were answered, or if it did not listen yet; 1 after
 * a timeout, a second signal or an uncaught exception. Throws `OperatorError` if it cannot start.
 */
export async function serve(
  environment: Environment,
  options: SettingOptions = {},
): Promise<number> {
  const signals = watchSignals()
  const reloads = watchReloads()
  const settings = await loadSettings(environment, options)
  const openFiles = readOpenFilesLimit()
  const isAlone = settings.config.workers === 1
  const hasManagement = isAlone && settings.config.managementPort !== undefined
  const maxConnections = limitConnections(openFiles, {
    maxConnections: settings.config.maxConnections,
    otherConnections: hasManagement ? MANAGEMENT_CONNECTIONS : 0,
  })
  const config = { ...settings.config, maxConnections }
  const logger = await createLogger({ ...config, ...(!isAlone && { worker: 0 }) })
  logStart(logger.log, settings, { openFiles, maxConnections })
  const parts = { config, options, limits: settings.limits, logger, signals, reloads }
  try {
    if (isAlone) return await serveAlone(parts)
    const { serveWithWorkers } = await import('./serve-with-workers.ts')
    return await serveWithWorkers(parts)
  } finally {
    await logger.flush()
  }
}

async function serveAlone(parts: ServeParts): Promise<number> {
  const managementThread = await startManagementThread(parts)
  try {
    return await openAndServe(parts, managementThread)
  } finally {
    await managementThread?.end()
  }
}

async function startManagementThread({
  config,
  logger,
}: ServeParts): Promise<ManagementThread | undefined> {
  if (config.managementPort === undefined) return undefined
  const { startManagement } = await import('./start-management.ts')
  return startManagement({ config, logger })
}

async function openAndServe(
  parts: ServeParts,
  managementThread: ManagementThread | undefined,
): Promise<number> {
  const { config, limits, logger, signals, reloads } = parts
  const { log, release } = logger
  const opening = openService({ config, log, limits: limits?.limits })
  const service = await Promise.race([opening, signals.first])
  if (service === 'signal') {
    // The database may be away for long. What fails now has no one to tell.
    opening.catch(() => {})
    log.info('stopped before it was ready')
    release()
    return 0
  }
  reloads.begin(service.reloadLimits)
  const crash = awaitCrash(log)
  const management = await listenOrClose(parts, { service, managementThread })
  release()
  if ((await Promise.race([signals.first, crash])) === 'crash') return 1
  log.info('stopping')
  const stopped = stopServers(parts, { service, management })
  const end = await Promise.race([stopped, signals.second, crash])
  if (end === true) log.info('stopped')
  else log.warn({ reason: end === false ? 'timeout' : end }, 'stopped with unanswered requests')
  if (typeof end === 'string') return 1
  await service.close()
  return end ? 0 : 1
}

interface Opened {
  readonly service: Service
  readonly managementThread: ManagementThread | undefined
}

/** Listens for operators, if the settings want that, and then for clients. */
async function listenOrClose(
  { config, options, reloads, logger: { log } }: ServeParts,
  { service, managementThread }: Opened,
): Promise<ManagementPort | undefined> {
  let management: ManagementPort | undefined
  try {
    const operations = createProcessOperations({ ...service, reloadLimits: reloads.request })
    management = await managementThread?.open(operations)
    logAddress(log, config, await listen(service.server, publicBinding(config, options)))
    if (management !== undefined) logManagementAddress(log, config, management.address)
    return management
  } catch (error) {
    await management?.close()
    await service.close()
    throw error
  }
}

interface Servers {
  readonly service: Service
  readonly management: ManagementPort | undefined
}

/** Stops listening, first for clients and then for operators. Resolves to whether all requests of clients were answered in time. */
async function stopServers(
  { config }: ServeParts,
  { service, management }: Servers,
): Promise<boolean> {
  const isComplete = await service.server.stop(config.shutdownTimeoutMs)
  await management?.close()
  return isComplete
}

function logStart(
  log: Logger,
  { config, limits, unknown }: LoadedSettings,
  { openFiles, maxConnections }: { openFiles: number | undefined; maxConnections: number },
): void {
  const rules = Object.values(limits?.limits ?? {}).flat().length
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
