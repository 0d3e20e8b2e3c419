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

interface Waiting {
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

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
  const run = (${createLongRunner})(() => {
    const database = new (require(workerData.driver))(workerData.path, { readonly: true, timeout: 0 })
    database.pragma('cache_size = -${CACHE_KIB}')
    return database
  })
  parentPort.on('message', ({ id, task }) => parentPort.postMessage({ id, answer: run(task) }))`

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
      // `close` has rejected what was on its way.
      const asked = waiting.get(id)
      waiting.delete(id)
      if (waiting.size === 0) started.unref()
      try {
        asked?.resolve(checked(answer))
      } catch (error) {
        asked?.reject(error)
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

  /** All tasks of one read go to one thread. */
  function askerOf(): Asker {
    let own: Worker | undefined
    return async task => {
      if (isClosed) throw new ServiceError('shutting_down')
      thread ??= start()
      own ??= thread
      if (own !== thread) throw new ServiceError('storage_unavailable')
      return new Promise((resolve, reject) => {
        own?.postMessage({ id: ++lastId, task })
        own?.ref()
        waiting.set(lastId, { resolve, reject })
      })
    }
  }

  return {
    ...readsBy(askerOf),
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
  const runHere = createLongRunner(() => database)
  const reads = readsBy(() => {
    let run: typeof runHere | undefined
    return async task => {
      if (!database.open) throw new ServiceError('shutting_down')
      if ('first' in task) return checked(runHere(task))
      // Everything else has its turn between two parts.
      await nextTurn()
      run ??= createLongRunner(() => new Database(database.serialize()))
      return checked(run(task))
    }
  })
  return { ...reads, close: async () => {} }
}

type Asker = (task: Task) => Promise<Answer>

/** `askerOf` returns a function for the tasks of one read. */
function readsBy(askerOf: () => Asker): Pick<LongReads, 'first' | 'walk'> {
  let walks = 0
  return {
    first: async statement => rowOf(await askerOf()({ first: statement })),
    walk: async (statement, take) => {
      const walk = ++walks
      const ask = askerOf()
      let isRead = false
      let next = ask({ walk, begin: statement })
      try {
        for (;;) {
          const { text, isLast, isRefused = false } = linesOf(await next)
          isRead = isLast
          if (isRefused) return false
          if (!isLast) next = ask({ walk })
          // `take` may end the walk before this is awaited.
          next.catch(() => {})
          await take(text)
          if (isLast) return true
        }
      } finally {
        if (!isRead) ask({ end: walk }).catch(() => {})
      }
    },
  }
}

const rowOf = (answer: Answer) => (answer as { row: readonly unknown[] }).row

const linesOf = (answer: Answer) => (answer as { lines: Lines }).lines

function checked(answer: Answer): Answer {
  if ('isLate' in answer) throw new ServiceError('overloaded')
  if (!('error' in answer)) return answer
  const { message, code } = answer.error
  throw code?.startsWith('SQLITE_')
    ? translateSqliteError(new Database.SqliteError(message, code))
    : new Error(message)
}
