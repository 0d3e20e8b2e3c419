/** What a password is for: host, port, database and user. */
export type PasswordUse = readonly [string, string, string, string]

/** The password of the first line that fits, as in libpq: https://www.postgresql.org/docs/current/libpq-pgpass.html */
export function findPassword(text: string, use: PasswordUse): string | undefined {
  for (const line of text.split(/\r?\n/)) {
    const escaped = line.match(/(?<=^|:)(?:\\.|[^:\\])*/g) ?? []
    const fields = escaped.map(field => field.replaceAll(/\\(.)/g, '$1'))
    const isFor = use.every((value, nth) => fields[nth] === '*' || fields[nth] === value)
    if (isFor && !line.startsWith('#')) return fields.slice(use.length).join(':')
  }
  return undefined
}
