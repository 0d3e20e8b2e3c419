import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { ServiceError } from '../../errors.ts'
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

/** Reads that may take seconds. A database in memory, which has one connection, holds up everything else meanwhile. */
export interface LongReads {
  /**
   * The first row of a statement. It sees all that was committed before the call. Throws `overloaded` if it is late,
   * `storage_unavailable` if the thread dies, and `shutting_down` after `close`.
   */
  first(statement: LongStatement): Promise<readonly unknown[]>
  /**
   * Gives `take` the texts of a statement of one column, each with a line feed and without those that are null, as they are at
   * one moment: about 64 KB at a time, and after some milliseconds less. Other reads run in between. The deadline is that of
   * the first of them. Resolves to false, without any, if the condition does not hold at that moment. Throws as `first`
   * does, and what `take` throws.
   */
  walk(statement: WalkStatement, take: (lines: string) => Promise<void>): Promise<boolean>
  /** Ends what runs, and rejects what waits. */
  close(): Promise<void>
}

/** Gives a task to a runner, and returns the value of its answer. */
type Ask = (task: Task) => Promise<unknown>

/** How long `close` waits for the thread: it ends with the next call of `is_in_time`. */
const CLOSE_MS = 3000

/** Milliseconds of a clock that all threads share, and that nobody sets. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Reads in a thread of their own, which the first of them starts. */
export function openLongReads(database: Database): LongReads {
  return database.memory ? readAtOnce(database) : readInThread(database.name)
}

const PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads')
  const open = () => {
    const database = new (require(workerData.driver))(workerData.path, { readonly: true, timeout: 0 })
    database.pragma('cache_size = -${CACHE_KIB}')
    return database
  }
  const run = (${createLongRunner})({ open, openForWalk: open })
  parentPort.on('message', task => parentPort.postMessage(run(task)))`

function readInThread(path: string): LongReads {
  /** For the answers, which come in the order of their tasks. */
  let waiting: { resolve(answer: Answer): void; reject(error: unknown): void }[] = []
  let thread: Worker | undefined
  let isClosed = false

  function start(): Worker {
    const workerData = { driver: DRIVER_PATH, path }
    // Without the options of the process, which may be about its main module.
    const started = new Worker(PROGRAM, { eval: true, execArgv: [], workerData })
    started.on('message', (answer: Answer) => {
      // What is asked of another thread, or was rejected by `close`, is not answered.
      if (started === thread) waiting.shift()?.resolve(answer)
      if (waiting.length === 0) started.unref()
    })
    started.on('error', cause => fail(started, cause))
    started.on('exit', () => fail(started, new Error('the thread has ended')))
    return started
  }

  /** The next read starts another thread. */
  function fail(failed: Worker, cause: unknown): void {
    if (failed !== thread) return
    thread = undefined
    rejectAll(new ServiceError('storage_unavailable', { cause }))
  }

  function rejectAll(error: ServiceError): void {
    for (const { reject } of waiting) reject(error)
    waiting = []
  }

  const ask: Ask = async task => {
    if (isClosed) throw new ServiceError('shutting_down')
    thread ??= start()
    thread.postMessage(task)
    thread.ref()
    return valueIn(
      await new Promise<Answer>((resolve, reject) => waiting.push({ resolve, reject })),
    )
  }

  return {
    ...readsBy(ask),
    close: async () => {
      isClosed = true
      const ending = thread
      rejectAll(new ServiceError('shutting_down'))
      await Promise.race([ending?.terminate(), sleep(CLOSE_MS, undefined, { ref: false })])
    },
  }
}

/** A walk reads a copy, because a database in memory has one connection, and one state. */
function readAtOnce(database: Database): LongReads {
  const run = createLongRunner({
    open: () => database,
    openForWalk: () => new Database(database.serialize()),
  })
  const ask: Ask = async task => {
    if (!database.open) throw new ServiceError('shutting_down')
    // Everything else has its turn between two parts of a walk.
    if (!('first' in task)) await nextTurn()
    return valueIn(run(task))
  }
  return { ...readsBy(ask), close: async () => {} }
}

function readsBy(ask: Ask): Pick<LongReads, 'first' | 'walk'> {
  let walks = 0
  return {
    first: async statement => (await ask({ first: statement })) as readonly unknown[],
    walk: async (statement, take) => {
      const walk = ++walks
      let next = ask({ walk, begin: statement })
      for (;;) {
        const lines = (await next) as Lines | undefined
        if (lines === undefined) return false
        const { text, isLast } = lines
        if (!isLast) next = ask({ walk })
        // `take` may end the walk before this is awaited.
        next.catch(() => {})
        try {
          await take(text)
        } catch (error) {
          if (!isLast) ask({ walk, isOver: true }).catch(() => {})
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
