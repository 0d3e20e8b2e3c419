import { withinPatience } from '../../waiting/patience.ts'
import type { CallKind, Calls } from '../../workers/calls.ts'
import { answerBanOperations, delegateBans, type WorkerBanOperations } from './delegate-bans.ts'
import type { Operations, ReadinessChecks } from './operations.ts'

const CHECKS: CallKind<null, ReadinessChecks> = { name: 'checks' }

/** Longer than a worker takes to find out that its database does not answer. */
const CHECKS_PATIENCE_MS = 3000

/** What a worker does for the management port of the first process. */
export type WorkerOperations = Pick<Operations, 'checks'> & WorkerBanOperations

/** In a worker, before it serves: handles what the first process asks of it. */
export function answerOperations(firstProcess: Calls, operations: WorkerOperations): void {
  firstProcess.handle(CHECKS, operations.checks)
  answerBanOperations(firstProcess, operations)
}

export interface OperationsOfWorkersOptions extends Pick<Operations, 'report' | 'reloadLimits'> {
  /** The calls of the workers that serve now. */
  readonly serving: () => readonly Calls[]
  /** Whether the service stops. */
  readonly isStopping: () => boolean
}

/** What the management port of the first process asks of the service. */
export function createOperationsOfWorkers(options: OperationsOfWorkersOptions): Operations {
  const { serving, isStopping, report, reloadLimits } = options

  return {
    // The thread of the port is that of the first process.
    greet: async () => {},
    report,
    reloadLimits,
    ...delegateBans(serving),

    checks: async () => {
      const found = await askReadiness(serving())
      const isServing = found !== undefined && !isStopping()
      return {
        isReady: isServing && found.isReady,
        checks: { ...found?.checks, service: { status: isServing ? 'ok' : 'unavailable' } },
      }
    },
  }
}

/** The checks of the first worker that is ready; those of another one if none is. `undefined` if none answers. */
function askReadiness(workers: readonly Calls[]): Promise<ReadinessChecks | undefined> {
  const answers = workers.map(calls => withinPatience(CHECKS_PATIENCE_MS, calls.ask(CHECKS, null)))
  return firstOf(answers, ({ isReady }) => isReady)
}

/** The first value that `isWanted`; any other if none is. Promises that reject do not count. */
async function firstOf<T>(
  promises: readonly Promise<T>[],
  isWanted: (value: T) => boolean,
): Promise<T | undefined> {
  let other: T | undefined
  const wanted = promises.map(async promise => {
    const value = await promise
    if (isWanted(value)) return value
    other = value
    throw new Error('not wanted')
  })
  return Promise.any(wanted).catch(() => other)
}
