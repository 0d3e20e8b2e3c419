const MAX_CHARS = 256

/** JSON does not escape these control characters. Terminals obey them, and some log readers end a line at one. */
const C1_CONTROL = /[\x80-\x9f]/g

/** Text from a client in a form that is safe to log. */
export function logText(sent: string): string
export function logText(sent: string | undefined): string | undefined
export function logText(sent: string | undefined): string | undefined {
  return sent?.slice(0, MAX_CHARS).replace(C1_CONTROL, '?')
}
