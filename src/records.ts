import express, { type Application } from 'express'
import pino, { type Logger } from 'pino'
import { maskCredentials } from './config/url-parts.ts'
import { isInMemory } from './open-database.ts'
import {
  type RecordSettings,
  readRecordSettings,
  type UserRecordsSettings,
} from './record-settings.ts'
import { openApp } from './service.ts'

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
export async function openRecords(
  settings: UserRecordsSettings,
  logger?: Logger,
): Promise<UserRecords> {
  const read = await readRecordSettings(settings)
  const log = loggerOf(settings, logger)
  let records = await openOnce(read, log)
  let isClosed = false
  let resetting = Promise.resolve()

  const app = express()
  app.disable('x-powered-by')
  app.use((request, response) => {
    request.arrivedAt = performance.now()
    // Set by the application around this one, unless it is disabled there.
    response.removeHeader('X-Powered-By')
    // No `onLateRequest` here: the server of another program does not report late requests, so every request may be one.
    records.readAnew()
    records.app(request, response)
  })

  async function replace(): Promise<void> {
    if (isClosed) throw new Error('reset() was called after close()')
    const previous = records
    records = await openOnce(read, log)
    await previous.close()
  }

  return {
    app,

    reset: () => {
      if (!isInMemory(read.config)) {
        const url = maskCredentials(read.config.database.url)
        return Promise.reject(new Error(`reset() empties databases in memory only, and not ${url}`))
      }
      const done = resetting.then(replace)
      resetting = done.catch(() => {})
      return done
    },

    close: async () => {
      isClosed = true
      await resetting
      await records.close()
    },
  }
}

/** Like `openApp`, but `close` may be called twice and later requests are answered with 503. */
async function openOnce({ config, limits }: RecordSettings, log: Logger) {
  let closed: Promise<void> | undefined
  const isClosed = () => closed !== undefined
  const stopping = { hasBegun: isClosed, begin: new Promise<void>(() => {}), isTooLate: isClosed }
  const { app, readAnew, close } = await openApp({ config, log, limits, stopping })
  return {
    app,
    readAnew,
    close: () => {
      closed ??= close()
      return closed
    },
  }
}

function loggerOf({ LOG_LEVEL: level }: UserRecordsSettings, logger: Logger | undefined): Logger {
  // Without a stream of its own, pino would open standard output and watch the end of the process.
  if (logger === undefined) return pino({ level: 'silent' }, { write: () => {} })
  return level === undefined ? logger : logger.child({}, { level })
}
