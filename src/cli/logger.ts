import { setImmediate as nextTurn } from 'node:timers/promises'
import pino, { type Logger, type LoggerOptions } from 'pino'
import type { Config } from '../config.ts'
import { createLineWriter } from './line-writer.ts'

export interface FlushableLogger {
  readonly log: Logger
  /** Writes what is still buffered, before the process ends; what nobody takes within a second is lost. */
  flush(): Promise<void>
}

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
  const lines = createLineWriter(process.stdout.fd)
  process.once('exit', lines.flushNow)
  return { log: pino(options, lines), flush: lines.flush }
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
