import { setImmediate as nextTurn } from 'node:timers/promises'
import pino, { type Logger, type LoggerOptions } from 'pino'
import type { Config } from '../config.ts'

export interface FlushableLogger {
  readonly log: Logger
  /** Writes what is still buffered, before the process ends. */
  flush(): Promise<void>
}

/** A write for each line would cost as much as a read of a user, so lines wait for company up to this size. */
const BUFFER_BYTES = 8192

const FLUSH_INTERVAL_MS = 100

/** Past this many bytes that a slow reader did not take, lines are dropped and not kept in memory. */
const MAX_BUFFER_BYTES = 16 * 1024 * 1024

/** Logs to standard output: JSON lines, or a form for people where that is a terminal. */
export async function createLogger({
  logLevel,
}: Pick<Config, 'logLevel'>): Promise<FlushableLogger> {
  const options: LoggerOptions = {
    level: logLevel,
    base: null,
    timestamp: createIsoTime(),
    formatters: { level: label => ({ level: label }) },
  }
  if (process.stdout.isTTY) {
    const { default: pretty } = await import('pino-pretty')
    const terminal = pretty({ sync: true, singleLine: true, translateTime: 'HH:MM:ss.l' })
    return { log: pino(options, terminal), flush: () => nextTurn() }
  }
  const lines = pino.destination({
    dest: process.stdout.fd,
    sync: false,
    minLength: BUFFER_BYTES,
    maxLength: MAX_BUFFER_BYTES,
    periodicFlush: FLUSH_INTERVAL_MS,
  })
  return { log: pino(options, lines), flush: async () => lines.flushSync() }
}

/** The time as pino's own isoTime writes it; once a millisecond, because each time takes as long as half a line. */
function createIsoTime(): () => string {
  let writtenAt: number | undefined
  let field = ''
  return () => {
    const now = Date.now()
    if (now !== writtenAt) {
      writtenAt = now
      field = `,"time":"${new Date(now).toISOString()}"`
    }
    return field
  }
}
