import { Worker } from 'node:worker_threads'
import { ServiceError } from '../../errors.ts'
import { hrtime, nextTurn, sleep } from '../../timers.ts'
import {
  type Answer,
  createLongRunner,
  type Lines,
  type LongStatement,
  type Task,
  type WalkStatement,
} from './long-runner.ts'
import { CACHE_KIB } from './open-sqlite.ts'
import { Database, DRIVER_PATH } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'

/** Reads of one list, one after the other. */
export interface LongReads {
  /**
   * The rows of a statement. It sees all that was committed before the call. Throws `overloaded` if it is late, and
   * `storage_unavailable` if the thread dies.
   */
  rows(statement: LongStatement): Promise<unknown[][]>
  /**
   * Gives `take` the texts of a statement of one column, each with a line feed and without those that are null, as they are at
   * one moment: about 64 KB at a time, and after some milliseconds less. The deadline is that of the first of them. Resolves to
   * false, without any, if the condition does not hold at that moment. Throws as `rows` does, and what `take` throws.
   */
  walk(statement: WalkStatement, take: (lines: string) => Promise<void>): Promise<boolean>
}

/** Lists that may take seconds. A database in memory, which has one connection, holds up everything else meanwhile. */
export interface LongLists {
  /**
   * Runs the reads of a page, or of a whole list, in a thread that does nothing else meanwhile. Whole lists wait for nobody. A few
   * pages are made at a time; others wait. Throws `shutting_down` after `close`.
   */
  run<T>(kind: 'page' | 'whole', work: (reads: LongReads) => Promise<T>): Promise<T>
  /** Ends what runs, and rejects what waits. */
  close(): Promise<void>
}

/** Gives a task to a runner, and returns the value of its answer. */
type Ask = (task: Task) => Promise<unknown>

/** How long `close` waits for the thread: it ends with the next call of `is_in_time`. */
const CLOSE_MS = 3000

/** Milliseconds of a clock that all threads share, and that nobody sets. */
export function steadyMs(): number {
  return Number(hrtime.bigint()) / 1e6
}

/** How many pages are made at a time: one that takes long must not hold up the others. */
const MAX_PAGES = 3

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
  const run = (${createLongRunner})({ open, openForWalk: open, isEnded })
  parentPort.on('message', task => parentPort.postMessage(run(task)))`

function readInThreads(path: string): LongLists {
  const running = new Set<ReadThread>()
  /** One, so that the next list need not wait for the start of another. */
  let idle: ReadThread | undefined
  let pages = 0
  const waiting: (() => void)[] = []
  let isClosed = false

  async function enter(): Promise<void> {
    if (pages === MAX_PAGES) await new Promise<void>(resolve => waiting.push(resolve))
    else pages++
  }

  function leave(): void {
    const next = waiting.shift()
    if (next === undefined) pages--
    else next()
  }

  async function runInThread<T>(work: (reads: LongReads) => Promise<T>): Promise<T> {
    if (isClosed) throw new ServiceError('shutting_down')
    const thread = idle?.isFree() ? idle : startThread(path)
    idle = undefined
    running.add(thread)
    try {
      return await work(readsBy(thread.ask))
    } finally {
      if (idle === undefined && thread.isFree()) {
        idle = thread
        running.delete(thread)
      } else {
        void thread.end(new Error('its list has ended')).then(() => running.delete(thread))
      }
    }
  }

  return {
    run: async (kind, work) => {
      if (kind === 'whole') return runInThread(work)
      await enter()
      return runInThread(work).finally(leave)
    },
    close: async () => {
      isClosed = true
      for (const next of waiting.splice(0)) next()
      const reason = new ServiceError('shutting_down')
      const ended = [...running, ...(idle ? [idle] : [])].map(thread => thread.end(reason))
      await Promise.race([Promise.all(ended), sleep(CLOSE_MS, undefined, { ref: false })])
    },
  }
}

type ReadThread = ReturnType<typeof startThread>

function startThread(path: string) {
  const ended = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { driver: DRIVER_PATH, path, ended }
  // Without the options of the process, which may be about its main module.
  const worker = new Worker(PROGRAM, { eval: true, execArgv: [], workerData })
  /** For the answers, which come in the order of their tasks. */
  const waiting: { resolve(answer: Answer): void; reject(error: unknown): void }[] = []
  let failure: unknown
  let onAnswered = () => {}
  /** Of the first call: the list that it ends would call it again, and the thread must not be terminated before its time. */
  let ending: Promise<void> | undefined

  function fail(error: unknown): void {
    failure ??= error
    for (const { reject } of waiting) reject(failure)
  }

  const failWith = (cause: unknown) => fail(new ServiceError('storage_unavailable', { cause }))
  worker.on('message', (answer: Answer) => {
    waiting.shift()?.resolve(answer)
    if (waiting.length > 0) return
    worker.unref()
    onAnswered()
  })
  worker.on('error', failWith)
  worker.on('exit', () => {
    failWith(new Error('the thread has ended'))
    onAnswered()
  })

  const ask: Ask = async task => {
    if (failure !== undefined) throw failure
    worker.postMessage(task)
    worker.ref()
    return valueIn(
      await new Promise<Answer>((resolve, reject) => waiting.push({ resolve, reject })),
    )
  }

  async function endOnceAnswered(reason: Error): Promise<void> {
    const answered = new Promise<void>(resolve => {
      onAnswered = resolve
    })
    const isRunning = waiting.length > 0 && failure === undefined
    fail(reason)
    Atomics.store(ended, 0, 1)
    if (isRunning) await Promise.race([answered, sleep(CLOSE_MS, undefined, { ref: false })])
    await worker.terminate()
  }

  return {
    ask,
    /** Whether its next task runs at once. A walk that was broken off may still search for its next lines. */
    isFree: () => failure === undefined && waiting.length === 0,
    /**
     * Ends the thread: whatever runs or is asked from now on throws `reason`. First waits for the statement that runs
     * to end, because terminating a thread within a statement may leave its connection open.
     */
    end: (reason: Error): Promise<void> => {
      ending ??= endOnceAnswered(reason)
      return ending
    },
  }
}

/** A walk reads a copy, because a database in memory has one connection, and one state. */
function readAtOnce(database: Database): LongLists {
  const opening = {
    open: () => database,
    openForWalk: () => new Database(database.serialize()),
    isEnded: () => false,
  }
  const runFirst = createLongRunner(opening)
  return {
    run: (_, work) => {
      const runWalk = createLongRunner(opening)
      return work(
        readsBy(async task => {
          if (!database.open) throw new ServiceError('shutting_down')
          if (task.kind === 'rows') return valueIn(runFirst(task))
          // Everything else has its turn between two parts of a walk.
          await nextTurn()
          return valueIn(runWalk(task))
        }),
      )
    },
    close: async () => {},
  }
}

function readsBy(ask: Ask): LongReads {
  return {
    rows: async statement => (await ask({ kind: 'rows', ...statement })) as unknown[][],
    walk: async (statement, take) => {
      let next = ask({ kind: 'begin', ...statement })
      for (;;) {
        const lines = (await next) as Lines | undefined
        if (lines === undefined) return false
        const { text, isLast } = lines
        if (!isLast) next = ask({ kind: 'next' })
        // `take` may end the walk before this is awaited.
        next.catch(() => {})
        try {
          await take(text)
        } catch (error) {
          if (!isLast) ask({ kind: 'end' }).catch(() => {})
          throw error
        }
        if (isLast) return true
      }
    },
  }
}

function valueIn(answer: Answer): unknown {
  if ('value' in answer) return answer.value
  const { message, code } = answer.error
  if (code === 'LATE') throw new ServiceError('overloaded')
  throw code?.startsWith('SQLITE_')
    ? translateSqliteError(new Database.SqliteError(message, code))
    : new Error(message)
}
