/** What a password is for: host, port, database and user. */
export type PasswordUse = readonly [string, string, string, string]

/** The password of the first line that fits, as in libpq: https://www.postgresql.org/docs/current/libpq-pgpass.html */
export function findPassword(text: string, use: PasswordUse): string | undefined {
  const line = new RegExp(`^${use.map(patternOf).join('')}(.*)$`, 'mu')
  return line.exec(text)?.[1]?.replaceAll(/\\(.)/gu, '$1')
}

/** A field of a line. libpq takes any character with or without a backslash before it, also the colons of an IPv6 address. */
function patternOf(value: string): string {
  const characters = Array.from(value, each => `\\\\?\\u{${each.codePointAt(0)?.toString(16)}}`)
  return `(?:\\*|${characters.join('')}):`
}
