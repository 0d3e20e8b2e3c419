import pino, { type Logger, type LoggerOptions } from 'pino'
import type { Config } from '../config.ts'
import { createLineWriter, type LineWriter } from './line-writer.ts'

export interface FlushableLogger {
  /** Its lines are held until `release`, so that a start that fails prints its reason on standard error and nothing else. */
  readonly log: Logger
  /** Logs for another process, whose number stands in each line. */
  logOf(worker: number): Logger
  /** Adds lines that another process has logged as JSON. They are held as well. */
  addLines(lines: Buffer): void
  release(): void
  /** Call before the process ends. Resolves when all lines are written, or after a second, when the rest are lost. */
  flush(): Promise<void>
}

export interface LogOptions extends Pick<Config, 'logLevel'> {
  /** The number of this process among several that serve together. It stands in each line. */
  readonly worker?: number | undefined
}

/** Logs to standard output: JSON lines, or a shorter form if it is a terminal. */
export async function createLogger({ logLevel, worker }: LogOptions): Promise<FlushableLogger> {
  const lines = createLineWriter(process.stdout.fd)
  process.once('exit', lines.flushNow)
  const output = await createOutput(lines)
  let held: (() => void)[] | undefined = []
  const log = createLog({ logLevel }, line => {
    if (held === undefined) output.write(line)
    else held.push(() => output.write(line))
  })
  const logOf = (number: number) => log.child({ worker: number })
  return {
    log: worker === undefined ? log : logOf(worker),
    logOf,
    addLines: buffer => {
      if (held === undefined) output.writeLines(buffer)
      else held.push(() => output.writeLines(buffer))
    },
    release: () => {
      for (const write of held ?? []) write()
      held = undefined
    },
    flush: lines.flush,
  }
}

/** A log whose lines, as JSON with an end of line, go to `write`. */
export function createLog(
  { logLevel }: Pick<Config, 'logLevel'>,
  write: (line: string) => void,
): Logger {
  const options: LoggerOptions = {
    level: logLevel,
    base: null,
    timestamp: createIsoTime(),
    formatters: { level: label => ({ level: label }) },
  }
  return pino(options, { write })
}

async function createOutput(lines: LineWriter): Promise<Pick<LineWriter, 'write' | 'writeLines'>> {
  if (!process.stdout.isTTY) return lines
  const { createTerminalFormat } = await import('./terminal-log.ts')
  const format = createTerminalFormat()
  const write = (line: string) => lines.write(format(line))
  return {
    write,
    writeLines: buffer => {
      for (const line of buffer.toString().trimEnd().split('\n')) {
        // A function in a limits file may print anything.
        if (line.startsWith('{')) write(line)
        else lines.write(`${line}\n`)
      }
    },
  }
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
