import { createHash } from 'node:crypto'

interface BanName {
  readonly rule: string
  readonly clientKey: string
}

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

/** The same for two bans of the same rule and client. */
export function banKey({ rule, clientKey }: BanName): string {
  return `${toStored(rule)}\0${toStored(clientKey)}`
}

/** The primary key of a ban. */
export function hashOfBan(ban: BanName): Buffer {
  return createHash('sha256').update(banKey(ban)).digest()
}

/** SQL for the primary key of a ban. */
export const BAN_HASH = `
  sha256(convert_to(rule, 'UTF8') || '\\x00'::bytea || convert_to(client_key, 'UTF8'))`
