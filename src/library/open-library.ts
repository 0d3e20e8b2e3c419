import express, { type Application } from 'express'
import pino, { type Logger } from 'pino'
import { OperatorError } from '../errors.ts'
import { performance } from '../platform/timers.ts'
import { openApp } from '../service.ts'
import { engineOf } from '../wiring/engines.ts'
import { readLibrarySettings, type UserRecordsSettings } from './library-settings.ts'

/** The service inside another program. */
export interface UserRecords {
  /** For supertest, for `createServer` of `node:http`, or to mount: `parent.use('/api', app)`. */
  readonly app: Application
  /**
   * Empties a database in memory and deletes all counters and bans. The next user gets the id 1 again.
   * Rejects if the database is a file or `close` was called.
   */
  reset(): Promise<void>
  /** Finishes the waiting writes and closes the database. Later requests get 503. May be called twice. */
  close(): Promise<void>
}

/** The service without a server, for another program. Rejects with `OperatorError` if it cannot be opened. */
export async function openLibrary(
  settings: UserRecordsSettings,
  logger?: Logger,
): Promise<UserRecords> {
  const read = await readLibrarySettings(settings)
  const log = loggerOf(settings, logger)
  let closed: Promise<void> | undefined
  const isClosed = () => closed !== undefined
  const stopping = { hasBegun: isClosed, begin: new Promise<void>(() => {}) }
  const open = () => openApp({ ...read, log, stopping })
  let records = await open()
  let resetting = Promise.resolve()

  const app = express()
  app.disable('x-powered-by')
  app.use((request, response) => {
    request.arrival = { at: performance.now(), isTooLate: isClosed() }
    // The outer application sets it, unless it has disabled that.
    response.removeHeader('X-Powered-By')
    // No `onLateRequest` here: the server of another program does not report late requests, so every request may be one.
    records.readAnew()
    records.app(request, response)
  })

  async function replace(): Promise<void> {
    // `close` waits for this, and there is nobody left to empty it for.
    if (isClosed()) return
    const previous = records
    records = await open()
    await previous.close()
  }

  return {
    app,

    reset: () => {
      if (!engineOf(read.config.database).isInMemory) {
        const { url } = read.config.database
        const why = `reset() empties databases in memory only, and not ${url}`
        return Promise.reject(new Error(why))
      }
      if (isClosed()) return Promise.reject(new Error('reset() was called after close()'))
      const done = resetting.then(replace)
      resetting = done.catch(() => {})
      return done
    },

    close: () => {
      closed ??= resetting.then(() => records.close())
      return closed
    },
  }
}

function loggerOf({ LOG_LEVEL: level }: UserRecordsSettings, logger: Logger | undefined): Logger {
  // Each request would throw later, where nobody could catch it.
  if (logger !== undefined && typeof logger?.child !== 'function') {
    throw new OperatorError(['logger must be a logger of pino'])
  }
  // Without a stream of its own, pino would open standard output and watch the end of the process.
  if (logger === undefined) return pino({ level: 'silent' }, { write: () => {} })
  return level === undefined ? logger : logger.child({}, { level })
}
