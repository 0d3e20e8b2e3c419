import { Worker } from 'node:worker_threads'
import { ServiceError } from '../../errors.ts'
import { hrtime, nextTurn, sleep } from '../../platform/timers.ts'
import { CACHE_KIB } from './open-sqlite.ts'
import { Database, DRIVER_PATH } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'

export interface LongStatement {
  readonly sql: string
  readonly values: Readonly<Record<string, unknown>>
  /** When to end it, as a time of `steadyMs`. Only a call of the SQL function `is_in_time` ends a statement that runs. */
  readonly deadline: number
}

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

/** Lists in threads, which are started when they are needed. */
export function openLongLists(database: Database): LongLists {
  if (database.memory) return readAtOnce(database)
  // A page that takes long must not hold up the others, and parts of whole lists wait for no page.
  const lanes = { page: createLane(database.name, 3), part: createLane(database.name, 1) }
  return {
    rows: (kind, statement) => lanes[kind].rows(statement),
    close: async () => {
      await Promise.all([lanes.page.close(), lanes.part.close()])
    },
  }
}

/** Where a thread is, once it was needed. */
interface Place {
  thread?: ReturnType<typeof startThread>
}

/** Up to `most` threads, which stay for later statements. */
function createLane(path: string, most: number) {
  const places = Array.from({ length: most }, (): Place => ({}))
  const free = [...places]
  const waiting: ((place: Place) => void)[] = []
  let isClosed = false

  return {
    rows: async (statement: LongStatement): Promise<unknown[][]> => {
      const place = free.pop() ?? (await new Promise<Place>(resolve => waiting.push(resolve)))
      try {
        if (isClosed) throw new ServiceError('shutting_down')
        if (!place.thread?.isUsable()) place.thread = startThread(path)
        return rowsIn(await place.thread.ask(statement))
      } finally {
        const next = waiting.shift()
        if (next === undefined) free.push(place)
        else next(place)
      }
    },
    close: () => {
      isClosed = true
      return Promise.all(places.map(({ thread }) => thread?.end()))
    },
  }
}

/** The rows of a statement. One that was ended has the code `LATE`. */
type Answer =
  | { readonly rows: unknown[][] }
  | { readonly error: { readonly message: string; readonly code?: string | undefined } }

interface Surroundings {
  readonly open: () => Database
  readonly isEnded: () => boolean
  /** `steadyMs`. */
  readonly nowMs: () => number
}

/**
 * Runs statements, one after the other; what runs ends soon after `isEnded`. A thread gets the text of this function, so it uses
 * nothing around it.
 */
function createLongRunner({ open, isEnded, nowMs }: Surroundings) {
  let database: Database | undefined
  let endsAt = 0

  function opened(): Database {
    const connection = open()
    connection.function('is_in_time', () => {
      if (nowMs() > endsAt || isEnded()) throw new Error('late')
      return 1
    })
    return connection
  }

  return ({ sql, values, deadline }: LongStatement): Answer => {
    endsAt = deadline
    try {
      if (nowMs() > endsAt) throw new Error('late')
      database ??= opened()
      return { rows: database.prepare<unknown[], unknown[]>(sql).raw().all(values) }
    } catch (error) {
      const { message, code } = error as Error & { code?: string }
      return { error: { message, code: nowMs() > endsAt ? 'LATE' : code } }
    }
  }
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
  const nowMs = () => Number(process.hrtime.bigint()) / 1e6
  const run = (${createLongRunner})({ open, isEnded, nowMs })
  parentPort.on('message', statement =>
    statement === undefined ? parentPort.close() : parentPort.postMessage(run(statement)))`

function startThread(path: string) {
  const ended = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { driver: DRIVER_PATH, path, ended }
  // Without the options of the process, which may be about its main module.
  const worker = new Worker(PROGRAM, { eval: true, execArgv: [], workerData })
  let asked: { resolve(answer: Answer): void; reject(error: unknown): void } | undefined
  let failure: unknown

  function fail(error: unknown): void {
    failure ??= error
    asked?.reject(failure)
  }

  const failWith = (cause: unknown) => fail(new ServiceError('storage_unavailable', { cause }))
  worker.on('message', (answer: Answer) => {
    asked?.resolve(answer)
    asked = undefined
    // A process waits for no thread that is idle, but for one that is to end.
    if (failure === undefined) worker.unref()
  })
  worker.on('error', failWith)
  const exited = new Promise(resolve => worker.on('exit', resolve))
  void exited.then(() => failWith(new Error('the thread has ended')))

  return {
    isUsable: () => failure === undefined,
    /** Call it after the answer to the call before. */
    ask: (statement: LongStatement): Promise<Answer> => {
      worker.postMessage(statement)
      worker.ref()
      return new Promise((resolve, reject) => {
        asked = { resolve, reject }
      })
    },
    /**
     * Rejects what is asked, and ends the thread after the statement that runs: terminating it within one may leave its connection
     * open.
     */
    end: (): Promise<unknown> => {
      fail(new ServiceError('shutting_down'))
      Atomics.store(ended, 0, 1)
      worker.postMessage(undefined)
      worker.ref()
      return Promise.race([exited, sleep(CLOSE_MS, undefined, { ref: false })]).then(() =>
        worker.terminate(),
      )
    },
  }
}

function readAtOnce(database: Database): LongLists {
  const run = createLongRunner({ open: () => database, isEnded: () => false, nowMs: steadyMs })
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
