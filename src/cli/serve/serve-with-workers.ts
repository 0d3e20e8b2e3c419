import { compareRules } from '../../limits/rule-changes.ts'
import { awaitCrash } from './crash.ts'
import { logAddress } from './listen.ts'
import type { ServeParts } from './serve.ts'
import { startTeam, type Team } from './team.ts'

/** Serves with several processes, of which this is the first. It serves no requests itself. Returns the exit code. */
export async function serveWithWorkers(parts: ServeParts): Promise<number> {
  const { config, logger, signals } = parts
  const { log } = logger
  const team = startTeam({
    ...parts,
    rules: parts.limits?.source,
    log,
    onLines: logger.addLines,
    onMoved: address => logAddress(log, config, address),
    onStart: () => {},
    onEnd: () => {},
  })
  try {
    const started = await Promise.race([team.started, signals.first])
    if (started === 'signal') {
      log.info('stopped before it was ready')
      await team.kill()
      logger.release()
      return 0
    }
    logAddress(log, config, started)
    logger.release()
  } catch (error) {
    await team.kill()
    throw error
  }
  beginReloads(parts, team)
  return superviseUntilStopped(parts, team)
}

async function superviseUntilStopped(
  { config, logger: { log }, signals }: ServeParts,
  team: Team,
): Promise<number> {
  const crash = awaitCrash(log)
  const reason = await Promise.race([signals.first, team.failed, crash])
  if (reason === 'crash') return 1
  if (reason === 'failed') log.fatal('workers keep dying before they serve')
  log.info('stopping')
  const end = await Promise.race([team.stop(config.shutdownTimeoutMs), signals.second, crash])
  if (end === true) log.info('stopped')
  else log.warn({ reason: end === false ? 'timeout' : end }, 'stopped with unanswered requests')
  return end === true && reason === 'signal' ? 0 : 1
}

function beginReloads({ config, limits, logger: { log }, reloads }: ServeParts, team: Team): void {
  let inForce = limits?.limits
  reloads.begin(async () => {
    const { reloadLimits } = await import('../../wiring/open-limits.ts')
    await reloadLimits(config, log, async (source, read) => {
      await team.replaceRules(source)
      const changes = compareRules(inForce ?? read, read)
      inForce = read
      return changes
    })
  })
}
