import pino, { type Logger, type LoggerOptions } from 'pino'
import type { Config } from '../config/settings.ts'
import { createLineWriter } from './line-writer.ts'

export interface FlushableLogger {
  /** Its lines are held until `release`, so that a start that fails prints its reason on standard error and nothing else. */
  readonly log: Logger
  release(): void
  /** Call before the process ends. Resolves when all lines are written, or after a second, when the rest are lost. */
  flush(): Promise<void>
}

/** Logs to standard output: JSON lines, or a shorter form if it is a terminal. */
export async function createLogger({
  logLevel,
}: Pick<Config, 'logLevel'>): Promise<FlushableLogger> {
  const lines = createLineWriter(process.stdout.fd)
  process.once('exit', lines.flushNow)
  const format = process.stdout.isTTY ? await importFormat() : undefined
  const write = (line: string) => lines.write(format === undefined ? line : format(line))
  let held: string[] | undefined = []
  const options: LoggerOptions = {
    level: logLevel,
    base: null,
    timestamp: createIsoTime(),
    formatters: { level: label => ({ level: label }) },
  }
  const destination = {
    write: (line: string) => {
      if (held === undefined) write(line)
      else held.push(line)
    },
  }
  return {
    log: pino(options, destination),
    release: () => {
      for (const line of held ?? []) write(line)
      held = undefined
    },
    flush: lines.flush,
  }
}

async function importFormat(): Promise<(line: string) => string> {
  const { createTerminalFormat } = await import('./terminal-log.ts')
  return createTerminalFormat()
}

/** The time in the format of pino's isoTime. Formatted once per millisecond: it takes as long as half of a line. */
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
