/** Text as PostgreSQL can store it: see the migration. A lone surrogate is no character of any encoding. */
export function toStored(text: string): string {
  return text.toWellFormed().replaceAll('\\', '\\\\').replaceAll('\0', '\\0')
}

export function fromStored(text: string): string {
  return text.replace(/\\[0\\]/g, found => (found === '\\0' ? '\0' : '\\'))
}

/** SQL for the bytes of a text before `toStored`: both escapes become those of `decode`. */
export function utf8OfStored(sql: string): string {
  return `decode(replace(replace(${sql}, '\\\\', '\\134'), '\\0', '\\000'), 'escape')`
}

/** SQL for the primary key of a ban. */
export const BAN_HASH = `
  sha256(convert_to(rule, 'UTF8') || '\\x00'::bytea || convert_to(client_key, 'UTF8'))`
