import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Config, SettingOptions } from '../../config.ts'
import { OperatorError } from '../../errors.ts'
import type { LimitsSource } from '../../limits/rules/load-limits.ts'
import { type PoolMember, startWorkerPool } from '../../workers/worker-pool.ts'
import {
  APPLY_RULES,
  ASSIGN,
  CANNOT_SERVE,
  FIND_PORT,
  PREPARE_RULES,
  SERVING,
  STOP,
} from './worker-calls.ts'

/** The workers of a service. */
export interface Team {
  /** Resolves to the address once all workers serve. Rejects with `OperatorError` when they cannot. */
  readonly started: Promise<AddressInfo>
  /** Resolves when workers keep dying before they serve. */
  readonly failed: Promise<'failed'>
  /** The workers that serve now. */
  serving(): readonly PoolMember[]
  /** Puts rules in force in all workers or, when one cannot compile them, in none. */
  replaceRules(source: LimitsSource): Promise<void>
  /** Stops all workers. Resolves to whether all requests were answered within `timeoutMs`. */
  stop(timeoutMs: number): Promise<boolean>
  /** Ends all workers at once. */
  kill(): Promise<void>
}

export interface TeamOptions {
  readonly config: Config
  readonly options: SettingOptions
  /** The limits file in force; `undefined` without limits. */
  readonly rules: LimitsSource | undefined
  readonly log: Logger
  /** Called with lines of the workers' logs. */
  readonly onLines: (lines: Buffer) => void
  /** Called when a worker gets another address than the workers before it. */
  readonly onMoved: (address: AddressInfo) => void
  /** Called for each new worker, to handle more of its calls. */
  readonly onStart: (member: PoolMember) => void
  /** Called when a worker has ended. */
  readonly onEnd?: (member: PoolMember) => void
}

/** `.ts` in the sources, `.js` once built. */
const ENDING = import.meta.url.slice(-3)

const PROGRAM = fileURLToPath(new URL(`../../worker${ENDING}`, import.meta.url))

/** How long a worker may take to compile rules. A module may take 10 seconds. */
const RULES_PATIENCE_MS = 15_000

/** How long a worker may take for the end of its process, after its requests. */
const END_PATIENCE_MS = 5000

/** Starts the workers of a service and gives each its assignment. */
export function startTeam(options: TeamOptions): Team {
  const { config, log } = options
  const assigned = new WeakSet<PoolMember>()
  const startedNumbers = new Set<number>()
  let { rules } = options
  let replacing: Promise<void> = Promise.resolve()
  let port = config.port
  let address: AddressInfo | undefined
  let resolveStart: (address: AddressInfo) => void = () => {}
  let rejectStart: (error: OperatorError) => void = () => {}
  const started = new Promise<AddressInfo>((resolve, reject) => {
    resolveStart = resolve
    rejectStart = reject
  })

  const pool = startWorkerPool({
    size: config.workers,
    program: PROGRAM,
    log,
    onLines: options.onLines,
    onStart: member => {
      handleCalls(member)
      options.onStart(member)
    },
    onEnd: member => options.onEnd?.(member),
  })
  void pool.failed.then(() => rejectStart(new OperatorError([DIE_TOO_SOON])))

  function handleCalls(member: PoolMember): void {
    const { number, calls } = member
    calls.handle(ASSIGN, async () => {
      // A worker that got the previous rules now would miss the new ones.
      await replacing
      assigned.add(member)
      const isReplacement = hasStarted()
      return {
        worker: number,
        isReplacement,
        config,
        options: options.options,
        ...(rules && { rules }),
      }
    })
    calls.handle(FIND_PORT, () => {
      // Once all workers are gone, a port that was picked must be asked for by its number.
      if (address !== undefined && serving().length === 0) port = address.port
      return port
    })
    calls.handle(SERVING, at => {
      pool.markServing(member)
      startedNumbers.add(number)
      if (hasStarted()) resolveStart(at)
      if (address !== undefined && address.port !== at.port) options.onMoved(at)
      address = at
    })
    calls.handle(CANNOT_SERVE, problems => {
      if (address === undefined) rejectStart(new OperatorError(problems))
      else log.error({ problems, died: number }, 'worker cannot serve')
    })
  }

  function hasStarted(): boolean {
    return startedNumbers.size === config.workers
  }

  /** The workers that run and have rules. One may have died while it waited for its assignment. */
  function assignedMembers(): readonly PoolMember[] {
    return pool.members().filter(member => assigned.has(member))
  }

  function serving(): readonly PoolMember[] {
    return pool.members().filter(pool.isServing)
  }

  async function askAll(ask: (member: PoolMember) => Promise<void>): Promise<void> {
    const asked = assignedMembers().map(async member => {
      try {
        await awaitAnswer(member, ask(member))
      } catch (error) {
        // The worker that replaces one that died gets the rules in force then.
        if (pool.members().includes(member)) throw error
      }
    })
    await Promise.all(asked)
  }

  async function prepareAndApply(source: LimitsSource): Promise<void> {
    await askAll(({ calls }) => calls.ask(PREPARE_RULES, source))
    rules = source
    // A worker that does not answer in time has the call and follows it once it goes on.
    await askAll(({ calls }) => calls.ask(APPLY_RULES, null)).catch(() => {})
  }

  return {
    started,
    failed: pool.failed,
    serving,

    replaceRules: source => {
      const replaced = prepareAndApply(source)
      replacing = replaced.catch(() => {})
      return replaced
    },

    stop: async timeoutMs => {
      pool.retire()
      pool.kill('not serving')
      for (const { calls } of assignedMembers()) calls.tell(STOP, null)
      const timer = setTimeout(() => pool.kill('all'), timeoutMs + END_PATIENCE_MS)
      const haveEndedWell = await pool.awaitEnd()
      clearTimeout(timer)
      return haveEndedWell
    },

    kill: async () => {
      pool.retire()
      pool.kill('all')
      await pool.awaitEnd()
    },
  }
}

const DIE_TOO_SOON = 'the worker processes end before they can serve'

/** The answer of a worker. Rejects if it does not come in time. */
async function awaitAnswer<T>({ number }: PoolMember, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<never>((_resolve, reject) => {
    const giveUp = () => reject(new Error(`worker ${number} does not answer`))
    timer = setTimeout(giveUp, RULES_PATIENCE_MS)
  })
  try {
    return await Promise.race([answer, tooLate])
  } finally {
    clearTimeout(timer)
  }
}
