import cluster, { type Worker } from 'node:cluster'
import type { Logger } from 'pino'
import { readWholeLines } from '../ops/whole-lines.ts'
import { type Calls, createCalls } from './calls.ts'

/** A process that serves, as the first process sees it. */
export interface PoolMember {
  /** From 1 to the number of workers. A replacement has the number of the worker that died. */
  readonly number: number
  readonly pid: number | undefined
  readonly calls: Calls
}

/** Keeps a number of worker processes running. */
export interface WorkerPool {
  /** The workers that run now, those that do not serve yet among them. */
  members(): readonly PoolMember[]
  /** Resolves when workers keep dying before they serve. */
  readonly failed: Promise<'failed'>
  /** Call it when a worker has begun to serve. */
  markServing(member: PoolMember): void
  isServing(member: PoolMember): boolean
  /** From now on, workers that end are not replaced. */
  retire(): void
  /** Kills workers: all, or all that do not serve. */
  kill(which: 'all' | 'not serving'): void
  /**
   * Resolves when no worker is left and all their output has been read. Returns whether all that served have ended with the
   * exit code 0. Call it after `retire`.
   */
  awaitEnd(): Promise<boolean>
}

export interface WorkerPoolOptions {
  readonly size: number
  /** The module that a worker runs. */
  readonly program: string
  readonly log: Logger
  /** Called with whole lines of a worker's standard output. */
  readonly onLines: (lines: Buffer) => void
  /** Called for each new process, to handle its calls. */
  readonly onStart: (member: PoolMember) => void
  /** Called when a worker has ended. Its calls are closed. */
  readonly onEnd: (member: PoolMember) => void
}

/** After this many deaths in a row, with no worker that has begun to serve in between, the next would die as well. */
const MAX_DEATHS_IN_A_ROW = 5

/** Starts all workers. They accept connections from one shared socket: the system gives each connection to one that is idle. */
export function startWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const { size, program, log, onLines, onStart, onEnd } = options
  const running = new Map<PoolMember, Worker>()
  const serving = new Set<PoolMember>()
  let deathsInARow = 0
  let isRetired = false
  let reportFailure: (value: 'failed') => void = () => {}
  /** Whether each worker that served, and ended after `retire`, had the exit code 0. */
  let haveEndedWell = true
  let onEmpty: (() => void) | undefined
  const failed = new Promise<'failed'>(resolve => {
    reportFailure = resolve
  })

  // A worker that is handed its connections by the first process loses those on the way when it dies.
  cluster.schedulingPolicy = cluster.SCHED_NONE
  cluster.setupPrimary({ exec: program, args: [], stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  for (let number = 1; number <= size; number++) start(number)

  function start(number: number): void {
    const worker = cluster.fork()
    const calls = createCalls({
      // What is sent to a process that has ended is lost; its end is reported by itself.
      send: message => void worker.process.send?.(message as object, undefined, {}, () => {}),
      onMessage: receive => void worker.on('message', receive),
    })
    const member = { number, pid: worker.process.pid, calls }
    running.set(member, worker)
    if (worker.process.stdout !== null) readWholeLines(worker.process.stdout, onLines)
    worker.on('error', err => log.error({ err, died: number }, 'worker process failed'))
    // Not 'exit', after which there may be output that was not read yet.
    worker.process.once('close', (code, signal) => end(member, { code, signal }))
    onStart(member)
  }

  function end(member: PoolMember, how: { code: number | null; signal: string | null }): void {
    const { number, pid, calls } = member
    const hasServed = serving.delete(member)
    running.delete(member)
    calls.close(new Error(`worker ${number} has ended`))
    onEnd(member)
    if (isRetired) {
      if (hasServed && how.code !== 0) haveEndedWell = false
      if (running.size === 0) onEmpty?.()
      return
    }
    log.warn({ died: number, pid, ...how }, 'worker died, starting another')
    if (!hasServed) deathsInARow++
    if (deathsInARow < MAX_DEATHS_IN_A_ROW) start(number)
    else reportFailure('failed')
  }

  return {
    members: () => [...running.keys()],
    failed,
    markServing: member => {
      serving.add(member)
      deathsInARow = 0
    },
    isServing: member => serving.has(member),
    retire: () => {
      isRetired = true
    },
    kill: which => {
      for (const [member, worker] of running) {
        if (which === 'all' || !serving.has(member)) worker.process.kill('SIGKILL')
      }
    },
    awaitEnd: async () => {
      await new Promise<void>(resolve => {
        onEmpty = resolve
        if (running.size === 0) resolve()
      })
      return haveEndedWell
    },
  }
}
