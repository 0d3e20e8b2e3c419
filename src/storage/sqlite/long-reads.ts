import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { ServiceError } from '../../errors.ts'
import { Database, DRIVER_PATH } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'

/** Reads that may take seconds. A database in memory, which has one connection, holds up everything else meanwhile. */
export interface LongReads {
  /**
   * The first row of a statement. It sees all that was committed before the call. Throws `overloaded` if it is late,
   * `storage_unavailable` if the thread dies, and `shutting_down` after `close`.
   */
  first(statement: LongStatement): Promise<readonly unknown[]>
  /** Ends what runs, and rejects what waits. */
  close(): Promise<void>
}

export interface LongStatement {
  readonly sql: string
  readonly values: Readonly<Record<string, unknown>>
  /** When to end it, as a time of `steadyMs`. Only a call of the SQL function `is_in_time` ends a statement that runs. */
  readonly deadline: number
}

type Answer =
  | { readonly row: readonly unknown[] }
  | { readonly isLate: true }
  | { readonly error: { readonly message: string; readonly code?: string | undefined } }

interface Waiting {
  readonly resolve: (row: readonly unknown[]) => void
  readonly reject: (error: unknown) => void
}

/** How long `close` waits for the thread: it ends with the next call of `is_in_time`. */
const CLOSE_MS = 3000

const CACHE_KIB = 4000

/** Milliseconds of a clock that all threads share, and that nobody sets. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Reads in a thread of their own, which the first of them starts. */
export function openLongReads(database: Database): LongReads {
  return database.memory ? readAtOnce(database) : readInThread(database.name)
}

/** The thread gets the text of this function, so it uses nothing else of this module. Opens the database when first asked. */
function createRunner(open: () => Database): (statement: LongStatement) => Answer {
  const nowMs = () => Number(process.hrtime.bigint()) / 1e6
  let database: Database | undefined
  let endsAt = 0
  const opened = () => {
    const connection = open()
    connection.function('is_in_time', () => {
      if (nowMs() > endsAt) throw new Error('late')
      return 1
    })
    return connection
  }
  return ({ sql, values, deadline }) => {
    endsAt = deadline
    if (nowMs() > endsAt) return { isLate: true }
    try {
      database ??= opened()
      return { row: database.prepare(sql).raw().get(values) as unknown[] }
    } catch (error) {
      const { message, code } = error as Error & { code?: string }
      return nowMs() > endsAt ? { isLate: true } : { error: { message, code } }
    }
  }
}

const PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads')
  const run = (${createRunner})(() => {
    const database = new (require(workerData.driver))(workerData.path, { readonly: true, timeout: 0 })
    database.pragma('cache_size = -${CACHE_KIB}')
    return database
  })
  parentPort.on('message', ({ id, statement }) => parentPort.postMessage({ id, answer: run(statement) }))`

function readInThread(path: string): LongReads {
  const waiting = new Map<number, Waiting>()
  let lastId = 0
  let thread: Worker | undefined
  let isClosed = false

  function start(): Worker {
    const workerData = { driver: DRIVER_PATH, path }
    // Without the options of the process, which may be about its main module.
    const started = new Worker(PROGRAM, { eval: true, execArgv: [], workerData })
    started.on('message', ({ id, answer }: { id: number; answer: Answer }) => {
      const { resolve, reject } = waiting.get(id) as Waiting
      waiting.delete(id)
      if (waiting.size === 0) started.unref()
      try {
        resolve(rowOf(answer))
      } catch (error) {
        reject(error)
      }
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
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }

  return {
    first: async statement => {
      if (isClosed) throw new ServiceError('shutting_down')
      return new Promise((resolve, reject) => {
        thread ??= start()
        thread.postMessage({ id: ++lastId, statement })
        thread.ref()
        waiting.set(lastId, { resolve, reject })
      })
    },
    close: async () => {
      isClosed = true
      const ending = thread
      rejectAll(new ServiceError('shutting_down'))
      await Promise.race([ending?.terminate(), sleep(CLOSE_MS, undefined, { ref: false })])
    },
  }
}

function readAtOnce(database: Database): LongReads {
  const run = createRunner(() => database)
  return {
    first: async statement => {
      if (!database.open) throw new ServiceError('shutting_down')
      return rowOf(run(statement))
    },
    close: async () => {},
  }
}

function rowOf(answer: Answer): readonly unknown[] {
  if ('row' in answer) return answer.row
  if ('isLate' in answer) throw new ServiceError('overloaded')
  const { message, code } = answer.error
  throw code?.startsWith('SQLITE_')
    ? translateSqliteError(new Database.SqliteError(message, code))
    : new Error(message)
}
