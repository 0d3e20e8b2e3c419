import { hash } from 'node:crypto'

/** Headers whose values let a client in, in lower case: RFC 9110 11.6.2 and 11.7.2, RFC 6265 4.2. */
const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
])

const PREFIX = 'sha256:'

const FORM = /^sha256:[0-9a-f]{64}$/

/** Whether a header has credentials, which are counted by their digest. */
export function hasCredentials(lowerCaseName: string): boolean {
  return CREDENTIAL_HEADERS.has(lowerCaseName)
}

/**
 * What a client with these credentials is counted by: `sha256:` and the SHA-256 of the bytes in hex. Keys of counters and bans
 * are logged and stored, so a credential must not be one. `value` is as Node has it, a character for each byte.
 */
export function credentialDigest(value: string): string {
  return PREFIX + hash('sha256', Buffer.from(value, 'latin1'), 'hex')
}

/** The digest that an operator names: itself, or the credentials, which a terminal has in UTF-8. */
export function namedDigest(name: string): string {
  return FORM.test(name) ? name : PREFIX + hash('sha256', name, 'hex')
}
