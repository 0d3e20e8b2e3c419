import { isColorSupported, prettyFactory } from 'pino-pretty'

/** The fields of lines about requests and about listening. */
interface LogRecord {
  readonly time?: string
  readonly msg?: string
  readonly url?: string
  readonly docs?: string
  readonly method?: string
  readonly route?: string
  readonly status?: number
  readonly aborted?: boolean
  readonly ms?: number
  readonly reason?: string
  readonly type?: string
  readonly rule?: string
  readonly dryRun?: boolean
}

/**
 * Returns a function that formats a JSON log line for a terminal: short for requests and for ports that listen, with all
 * fields otherwise. As in JSON, a request shows the template of its route and not its path.
 */
export function createTerminalFormat(): (line: string) => string {
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
    const [time = ''] = new Date(record.time ?? Date.now()).toTimeString().split(' ')
    return `${time} ${text}\n`
  }
}

/** Undefined for a line that has no short form. */
function formatShort(record: LogRecord): string | undefined {
  if (record.msg === 'listening') return `listening on ${record.url}, docs at ${record.docs}`
  if (record.msg === 'management port listens')
    return `management port listens on ${record.url}, with the page for operators`
  const isRequest = record.msg === 'request' || record.msg === 'request refused'
  return isRequest ? formatRequest(record) : undefined
}

/** For example `POST /users 201 19 ms`; a refusal is followed by its reason. */
function formatRequest(record: LogRecord): string {
  const { method = '(unreadable)', route = '(no route)', status, aborted, ms, reason } = record
  const { type, rule, dryRun } = record
  const decision = dryRun ? 'dry run of' : 'by'
  return [
    method,
    record.method === undefined ? undefined : route,
    status,
    aborted ? 'aborted' : undefined,
    ms === undefined ? undefined : `${ms < 1 ? '<1' : Math.round(ms)} ms`,
    reason,
    type === undefined ? undefined : `${decision} ${type} ${JSON.stringify(rule)}`,
  ]
    .filter(part => part !== undefined)
    .join(' ')
}
