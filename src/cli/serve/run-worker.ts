import type { Logger } from 'pino'
import { OperatorError } from '../../errors.ts'
import type { CheckedLimits } from '../../limits/rules/compiled-rules.ts'
import { createLogger } from '../../ops/logger.ts'
import type { ReportingWorker } from '../../ops/metrics/worker-reports.ts'
import { openService, type Service } from '../../wiring/open-service.ts'
import { createProcessOperations } from '../../wiring/process-operations.ts'
import { type Calls, createCalls } from '../../workers/calls.ts'
import { awaitCrash } from './crash.ts'
import { listen, publicBinding } from './listen.ts'
import { watchSignals } from './signals.ts'
import {
  APPLY_RULES,
  ASSIGN,
  type Assignment,
  CANNOT_SERVE,
  FIND_PORT,
  PREPARE_RULES,
  SERVING,
  STOP,
} from './worker-calls.ts'

/**
 * Serves as one of several processes until the first process or a signal stops it. Returns the exit code: 0 if all requests
 * were answered. The process ends by itself when the first process is gone.
 */
export async function runWorker(): Promise<number> {
  const signals = watchSignals()
  // A terminal that closes sends it to each process, and the first one reloads for all.
  process.on('SIGHUP', () => {})
  const calls = connectToFirst()
  const stop = new Promise<'stop'>(resolve => calls.handle(STOP, () => resolve('stop')))
  const assignment = await calls.ask(ASSIGN, null)
  const { config, worker } = assignment
  const { log, release, flush } = await createLogger({ ...config, worker })
  release()
  try {
    const opening = openAssigned(assignment, calls, log)
    const opened = await Promise.race([opening, stop, signals.first])
    // Nobody waits for a process that does not serve yet.
    if (typeof opened === 'string') return 0
    const { service, reporting } = opened
    const crash = awaitCrash(log)
    log.info({ pid: process.pid }, 'worker serves')
    if ((await Promise.race([stop, signals.first, crash])) === 'crash') return 1
    const end = await Promise.race([service.server.stop(config.shutdownTimeoutMs), crash])
    if (end === 'crash') return 1
    await reporting?.sendLast()
    await service.close()
    return end ? 0 : 1
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    await calls.ask(CANNOT_SERVE, error.problems)
    return 1
  } finally {
    await flush()
  }
}

interface OpenedService {
  readonly service: Service
  /** `undefined` without a management port. */
  readonly reporting: ReportingWorker | undefined
}

/** Opens the service, which listens then. Throws `OperatorError`. */
async function openAssigned(
  { config, options, rules, isReplacement }: Assignment,
  firstProcess: Calls,
  log: Logger,
): Promise<OpenedService> {
  const beginReloads = handleReloads(firstProcess)
  const limits = rules && (await (await importLimits()).compileReadLimits(rules))
  const service = await openService({ config, log, limits, firstProcess, isReplacement })
  beginReloads(service)
  const reporting =
    config.managementPort === undefined ? undefined : await answerManagement(firstProcess, service)
  try {
    const port = await firstProcess.ask(FIND_PORT, null)
    const address = await listen(service.server, publicBinding({ ...config, port }, options))
    firstProcess.tell(SERVING, address)
    return { service, reporting }
  } catch (error) {
    await service.close()
    throw error
  }
}

/** Handles what the management port of the first process asks. */
async function answerManagement(firstProcess: Calls, service: Service): Promise<ReportingWorker> {
  const [{ answerOperations }, { sendReports }] = await importManagement()
  const operations = createProcessOperations(service)
  answerOperations(firstProcess, {
    ...operations,
    followBans: service.bans.follow,
    savedBans: service.bans.saved,
  })
  return sendReports(firstProcess, service.report)
}

// Only where there is a management port.
const importManagement = () =>
  Promise.all([
    import('../../ops/management/operations-of-workers.ts'),
    import('../../ops/metrics/worker-reports.ts'),
  ])

/**
 * Handles new rules. They may come while the service is being opened, which may wait long for a database: the returned
 * function then puts them in force.
 */
function handleReloads(firstProcess: Calls): (service: Service) => void {
  let prepared: CheckedLimits | undefined
  let applied: CheckedLimits | undefined
  let opened: Service | undefined
  const apply = () => {
    if (applied !== undefined) opened?.replaceLimits(applied)
  }
  firstProcess.handle(PREPARE_RULES, async source => {
    prepared = await (await importRules()).compileLimits(source)
  })
  firstProcess.handle(APPLY_RULES, () => {
    applied = prepared
    apply()
  })
  return service => {
    opened = service
    apply()
  }
}

// Only where there are rules, as in `openApp`.
const importLimits = () => import('../../wiring/open-limits.ts')
const importRules = () => import('../../limits/rules/load-limits.ts')

function connectToFirst(): Calls {
  return createCalls({
    // Without the first process, nothing that is sent matters any more: this process is about to end.
    send: message => void process.send?.(message, undefined, {}, () => {}),
    onMessage: receive => void process.on('message', receive),
  })
}
