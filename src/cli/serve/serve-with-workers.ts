import type { Logger } from 'pino'
import { compareRules } from '../../limits/rule-changes.ts'
import { createLimitsOfWorkers } from '../../limits/workers/limits-of-workers.ts'
import { createKeysOfWorkers } from '../../users/shared-keys-in-use.ts'
import { createClocks } from '../../wiring/clocks.ts'
import { logIndexing } from '../../wiring/log-indexing.ts'
import { prepareStorage } from '../../wiring/open-storage.ts'
import { awaitCrash } from './crash.ts'
import { logAddress } from './listen.ts'
import type { WorkersManagement } from './manage-workers.ts'
import type { ServeParts } from './serve.ts'
import { startTeam, type Team } from './team.ts'

/** Serves with several processes, of which this is the first. It serves no requests itself. Returns the exit code. */
export async function serveWithWorkers(parts: ServeParts): Promise<number> {
  const { config, logger, signals } = parts
  const { log } = logger
  const opening = prepareStorage(config, {
    ...createClocks(),
    onWarning: (message, err) => log.warn({ err }, message),
    onIndexing: progress => logIndexing(log, progress),
  })
  const opened = await Promise.race([opening, signals.first])
  if (opened === 'signal') {
    // The database may be away for long. What fails now has no one to tell.
    opening.catch(() => {})
    return stopBeforeReady(parts)
  }
  await logRuleWarnings(parts)
  const processes: Processes = { writer: opened, team: undefined, management: undefined }
  try {
    processes.management = await openManagement(parts, processes)
    processes.team = startWorkers(parts, processes)
    const started = await Promise.race([processes.team.started, signals.first])
    if (started === 'signal') {
      await endAll(processes)
      return stopBeforeReady(parts)
    }
    logAddress(log, config, started)
    processes.management?.logAddress()
    logger.release()
  } catch (error) {
    await endAll(processes)
    throw error
  }
  beginReloads(parts, processes.team)
  return superviseUntilStopped(parts, { ...processes, team: processes.team })
}

/** What runs besides the first process, and for it. */
interface Processes {
  /** `undefined` with an engine that has several writers. */
  readonly writer: Awaited<ReturnType<typeof prepareStorage>>
  /** `undefined` without a management port. */
  management: WorkersManagement | undefined
  /** `undefined` until it starts. */
  team: Team | undefined
}

/** Opens the management port, if the settings want one. Throws `OperatorError`. */
async function openManagement(
  parts: ServeParts,
  processes: Processes,
): Promise<WorkersManagement | undefined> {
  if (parts.config.managementPort === undefined) return undefined
  const { openWorkersManagement } = await import('./manage-workers.ts')
  return openWorkersManagement(parts, {
    writer: processes.writer,
    serving: () => processes.team?.serving() ?? [],
    reloadLimits: parts.reloads.request,
  })
}

function startWorkers(parts: ServeParts, { writer, management }: Processes): Team {
  const { config, logger } = parts
  const { log } = logger
  const limits = createLimitsOfWorkers({ logOf: logger.logOf, ...createClocks() })
  const keys = createKeysOfWorkers()
  return startTeam({
    ...parts,
    rules: parts.limits?.source,
    log,
    onLines: logger.addLines,
    onMoved: address => logAddress(log, config, address),
    onStart: member => {
      const { calls, number } = member
      writer?.answer(calls)
      limits.answer(calls, number)
      keys.answer(calls, number)
      management?.answer(member)
    },
    onEnd: member => {
      limits.remove(member.number)
      keys.remove(member.number)
      management?.remove(member)
    },
  })
}

async function endAll({ team, management, writer }: Processes): Promise<void> {
  await team?.kill()
  await management?.close()
  await writer?.close()
}

function stopBeforeReady({ logger: { log, release } }: ServeParts): number {
  log.info('stopped before it was ready')
  release()
  return 0
}

async function superviseUntilStopped(
  { config, logger: { log }, signals }: ServeParts,
  { team, writer, management }: Processes & { readonly team: Team },
): Promise<number> {
  const crash = Promise.race([awaitCrash(log), awaitWriterFailure(writer, log)])
  const reason = await Promise.race([signals.first, team.failed, crash])
  if (reason === 'crash') return 1
  if (reason === 'failed') log.fatal('workers keep dying before they serve')
  log.info('stopping')
  management?.beginStop()
  const stopped = team.stop(config.shutdownTimeoutMs)
  const end = await Promise.race([stopped, signals.second, crash])
  if (end === true) log.info('stopped')
  else log.warn({ reason: end === false ? 'timeout' : end }, 'stopped with unanswered requests')
  if (typeof end === 'string') return 1
  await management?.close()
  await writer?.close()
  return end && reason === 'signal' ? 0 : 1
}

/** Resolves when the thread that writes fails, which it logs, also if the service is stopping. */
async function awaitWriterFailure(writer: Processes['writer'], log: Logger): Promise<'crash'> {
  try {
    return await (writer?.failed ?? new Promise<never>(() => {}))
  } catch (err) {
    log.fatal({ err }, 'the thread that writes has failed')
    return 'crash'
  }
}

async function logRuleWarnings({ config, limits, logger: { log } }: ServeParts): Promise<void> {
  if (limits === undefined) return
  const { logWarnings } = await import('../../wiring/open-limits.ts')
  logWarnings({ config, log, limits: limits.limits })
}

function beginReloads({ config, limits, logger: { log }, reloads }: ServeParts, team: Team): void {
  let inForce = limits?.limits
  reloads.begin(async () => {
    const { reloadLimits } = await import('../../wiring/open-limits.ts')
    return reloadLimits(config, log, async (source, read) => {
      await team.replaceRules(source)
      const changes = compareRules(inForce ?? read, read)
      inForce = read
      return changes
    })
  })
}
