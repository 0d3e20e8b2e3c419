const MAX_CHARS = 256

/** JSON leaves these control characters as they are; terminals obey them, and some readers of logs end a line at one. */
const C1_CONTROL = /[\x80-\x9f]/g

/** What a client sent, as it may stand in the log. */
export function logText(sent: string | undefined): string | undefined {
  return sent?.slice(0, MAX_CHARS).replace(C1_CONTROL, '?')
}
