import { LINES_A_SECOND, type RuleLines } from '../limits/rule-lines.ts'

/** Logs a host that ALLOWED_HOSTS refuses: once, and at most `LINES_A_SECOND` of all hosts. */
export function writeRefusedHost(host: string, lines: RuleLines): void {
  const once = { key: host, resetsInMs: Number.MAX_SAFE_INTEGER }
  const throttled = { source: 'refused hosts', most: LINES_A_SECOND, once }
  const message = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  lines.write({ level: 'warn', message, ...throttled }, () => ({ setting: 'ALLOWED_HOSTS', host }))
}
