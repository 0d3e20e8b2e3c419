import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { ServiceError } from '../../errors.ts'
import { hrtime, nextTurn, sleep } from '../../platform/timers.ts'
import { type Answer, createLongRunner, type LongStatement } from './long-runner.ts'
import { CACHE_KIB } from './open-sqlite.ts'
import { Database, DRIVER_PATH } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'

/** `page` for a statement of a list that may take seconds, `part` for one of a whole list, which takes milliseconds. */
export type LongKind = 'page' | 'part'

/** Statements of lists that would hold up everything else. A database in memory has one connection, and they do that. */
export interface LongLists {
  /**
   * The rows of a statement, which sees all that was committed before the call. Waits while as many of its kind run as may run at
   * a time. Throws `overloaded` if it is late, `storage_unavailable` if its thread dies, and `shutting_down` after `close`.
   */
  rows(kind: LongKind, statement: LongStatement): Promise<unknown[][]>
  /** Ends what runs, and rejects what waits. */
  close(): Promise<void>
}

/** How long `close` waits for a thread: what it runs ends with the next call of `is_in_time`. */
const CLOSE_MS = 3000

/** Milliseconds of a clock that all threads share, and that nobody sets. */
export function steadyMs(): number {
  return Number(hrtime.bigint()) / 1e6
}

/** How many run at a time. A page that takes long must not hold up the others, and parts of whole lists wait for no page. */
const MAX_RUNNING: Readonly<Record<LongKind, number>> = { page: 3, part: 1 }

/** Lists in threads, which are started when they are needed. */
export function openLongLists(database: Database): LongLists {
  return database.memory ? readAtOnce(database) : readInThreads(database.name)
}

/**
 * A text, because no file of a thread is found from `src`, from `dist` and from a program that has all of this in one file. Some
 * bundlers wrap functions into calls of `__name`.
 */
const PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads')
  const __name = named => named
  const open = () => {
    const database = new (require(workerData.driver))(workerData.path, { readonly: true, timeout: 0 })
    database.pragma('cache_size = -${CACHE_KIB}')
    return database
  }
  const isEnded = () => Atomics.load(workerData.ended, 0) === 1
  const run = (${createLongRunner})({ open, isEnded })
  parentPort.on('message', statement => parentPort.postMessage(run(statement)))`

function readInThreads(path: string): LongLists {
  const running = new Set<ReadThread>()
  /** One of each kind, so that its next statement need not wait for the start of another. */
  const idle = new Map<LongKind, ReadThread>()
  const gates = { page: createGate(MAX_RUNNING.page), part: createGate(MAX_RUNNING.part) }
  let isClosed = false

  async function runInThread(kind: LongKind, statement: LongStatement): Promise<unknown[][]> {
    if (isClosed) throw new ServiceError('shutting_down')
    const kept = idle.get(kind)
    const thread = kept?.isUsable() ? kept : startThread(path)
    idle.delete(kind)
    running.add(thread)
    try {
      return rowsIn(await thread.ask(statement))
    } finally {
      if (!idle.has(kind) && thread.isUsable()) {
        idle.set(kind, thread)
        running.delete(thread)
      } else {
        void thread.end(new Error('nothing more is asked')).then(() => running.delete(thread))
      }
    }
  }

  return {
    rows: async (kind, statement) => {
      await gates[kind].enter()
      return runInThread(kind, statement).finally(gates[kind].leave)
    },
    close: async () => {
      isClosed = true
      for (const { open } of Object.values(gates)) open()
      const reason = new ServiceError('shutting_down')
      const ended = [...running, ...idle.values()].map(thread => thread.end(reason))
      await Promise.race([Promise.all(ended), sleep(CLOSE_MS, undefined, { ref: false })])
    },
  }
}

/** Lets up to `most` in at a time. Others wait. */
function createGate(most: number) {
  let inside = 0
  const waiting: (() => void)[] = []
  return {
    enter: async () => {
      if (inside === most) await new Promise<void>(resolve => waiting.push(resolve))
      else inside++
    },
    leave: () => {
      const next = waiting.shift()
      if (next === undefined) inside--
      else next()
    },
    /** Lets in all that wait. */
    open: () => {
      for (const next of waiting.splice(0)) next()
    },
  }
}

type ReadThread = ReturnType<typeof startThread>

function startThread(path: string) {
  const ended = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { driver: DRIVER_PATH, path, ended }
  // Without the options of the process, which may be about its main module.
  const worker = new Worker(PROGRAM, { eval: true, execArgv: [], workerData })
  let asked: { resolve(answer: Answer): void; reject(error: unknown): void } | undefined
  let failure: unknown
  let ending: Promise<unknown> | undefined

  function fail(error: unknown): void {
    failure ??= error
    asked?.reject(failure)
  }

  const failWith = (cause: unknown) => fail(new ServiceError('storage_unavailable', { cause }))
  worker.on('message', (answer: Answer) => {
    asked?.resolve(answer)
    asked = undefined
    worker.unref()
  })
  worker.on('error', failWith)
  worker.on('exit', () => failWith(new Error('the thread has ended')))

  async function endOnceAnswered(reason: Error): Promise<void> {
    const isRunning = asked !== undefined && failure === undefined
    fail(reason)
    Atomics.store(ended, 0, 1)
    if (isRunning) {
      const late = sleep(CLOSE_MS, undefined, { ref: false })
      // A thread that fails has ended too.
      await Promise.race([once(worker, 'message'), once(worker, 'exit'), late]).catch(() => {})
    }
    await worker.terminate()
  }

  return {
    isUsable: () => failure === undefined,
    /** Call it after the answer to the call before. */
    ask: (statement: LongStatement): Promise<Answer> => {
      if (failure !== undefined) return Promise.reject(failure)
      worker.postMessage(statement)
      worker.ref()
      return new Promise((resolve, reject) => {
        asked = { resolve, reject }
      })
    },
    /**
     * Ends the thread: whatever runs or is asked from now on throws `reason`. First waits for the statement that runs
     * to end, because terminating a thread within a statement may leave its connection open.
     */
    end: (reason: Error): Promise<unknown> => {
      ending ??= endOnceAnswered(reason)
      return ending
    },
  }
}

function readAtOnce(database: Database): LongLists {
  const run = createLongRunner({ open: () => database, isEnded: () => false })
  return {
    rows: async (kind, statement) => {
      // Everything else has its turn between two parts.
      if (kind === 'part') await nextTurn()
      if (!database.open) throw new ServiceError('shutting_down')
      return rowsIn(run(statement))
    },
    close: async () => {},
  }
}

function rowsIn(answer: Answer): unknown[][] {
  if ('rows' in answer) return answer.rows
  const { message, code } = answer.error
  if (code === 'LATE') throw new ServiceError('overloaded')
  throw code?.startsWith('SQLITE_')
    ? translateSqliteError(new Database.SqliteError(message, code))
    : new Error(message)
}
