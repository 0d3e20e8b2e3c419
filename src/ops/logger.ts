import pino, { type LoggerOptions } from 'pino'
import type { Config } from '../config/settings.ts'
import { createLineWriter } from './line-writer.ts'

export type FlushableLogger = Awaited<ReturnType<typeof createLogger>>

/** Logs to standard output: JSON lines, or a shorter form if it is a terminal. */
export async function createLogger({ logLevel }: Pick<Config, 'logLevel'>) {
  const lines = createLineWriter(process.stdout.fd)
  process.once('exit', lines.flushNow)
  const format = process.stdout.isTTY ? await createTerminalFormat() : undefined
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
    /** Its lines are held until `release`, so that a start that fails prints its reason on standard error and nothing else. */
    log: pino(options, destination),
    release: () => {
      for (const line of held ?? []) write(line)
      held = undefined
    },
    /** Call before the process ends. Resolves when all lines are written, or after a second, when the rest are lost. */
    flush: lines.flush,
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

/**
 * Returns a function that formats a JSON log line for a terminal: short for requests and for ports that listen, with all
 * fields otherwise. As in JSON, a request shows the template of its route and not its path.
 */
export async function createTerminalFormat(): Promise<(line: string) => string> {
  const { isColorSupported, prettyFactory } = await import('pino-pretty')
  const formatOther = prettyFactory({
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss',
    customPrettifiers: { time: time => String(time) },
    colorize: isColorSupported,
  })
  return line => {
    const record: LogRecord = JSON.parse(line)
    const text = formatShort(record)
    if (text === undefined) return formatOther(line)
    const [time = ''] = new Date(record.time as string).toTimeString().split(' ')
    return `${time} ${text}\n`
  }
}

type LogRecord = Readonly<Record<string, unknown>>

/** Undefined for a line that has no short form. */
function formatShort(record: LogRecord): string | undefined {
  switch (record.msg) {
    case 'listening':
      return `listening on ${record.url}, docs at ${record.docs}`
    case 'management port listens':
      return `management port listens on ${record.url}, with the page for operators`
    case 'request':
    case 'request refused':
      return formatRequest(record)
    default:
      return undefined
  }
}

/** For example `POST /users 201 19 ms 127.0.0.1 (web-2026)`, with the API key; a refusal is followed by its reason. */
function formatRequest({ method, route, status, aborted, ms, ...record }: LogRecord): string {
  const { client, key, reason, type, rule, dryRun } = record
  const time = Number(ms) < 1 ? '<1' : Math.round(Number(ms))
  const decision = dryRun ? 'dry run of' : 'by'
  return [
    method ?? '(unreadable)',
    method && (route ?? '(no route)'),
    status,
    aborted && 'aborted',
    ms !== undefined && `${time} ms`,
    client,
    key && `(${key})`,
    reason,
    type !== undefined && `${decision} ${type} ${JSON.stringify(rule)}`,
  ]
    .filter(Boolean)
    .join(' ')
}
