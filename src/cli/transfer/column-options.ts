import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import { UsageError } from '../terminal/terminal.ts'

export interface ColumnFlags {
  /** Each as `COLUMN=FIELD`. */
  readonly column?: readonly string[]
  readonly ignore?: readonly string[]
  readonly nameFrom?: 'email'
}

/** A column, or a path of JSON such as `credentials.0.hash`, and the field as which it is read. */
export interface TakenColumn {
  readonly column: string
  readonly field: string
}

export interface ColumnOptions {
  readonly taken: readonly TakenColumn[]
  readonly ignored: readonly string[]
  /** The field from which users without a name get one. */
  readonly nameFrom: 'email' | undefined
}

/** The options about columns. Throws `UsageError` if they fit no file. */
export function parseColumnFlags({
  column = [],
  ignore = [],
  nameFrom,
}: ColumnFlags): ColumnOptions {
  const taken = column.map(parseTaken)
  for (const [index, { column, field }] of taken.entries()) {
    const other = taken.slice(0, index).find(earlier => earlier.field === field)
    if (other !== undefined)
      throw new UsageError(
        `--column takes both ${quoted(other.column)} and ${quoted(column)} as ${field}`,
      )
    if (ignore.includes(column))
      throw new UsageError(`--column and --ignore both name ${quoted(column)}`)
  }
  return { taken, ignored: ignore, nameFrom }
}

/** A column may have an equals sign in its name, a field has none. */
function parseTaken(text: string): TakenColumn {
  const [, column, field = ''] = /^(.+)=(.*)$/s.exec(text) ?? []
  if (column === undefined)
    throw new UsageError(`--column ${quoted(text)} must be COLUMN=FIELD, such as "E-Mail=email"`)
  if (IMPORT_COLUMNS.includes(field)) return { column, field }
  const fields = IMPORT_COLUMNS.join(', ')
  throw new UsageError(
    `--column ${quoted(text)}: there is no field ${quoted(field)}; fields are ${fields}`,
  )
}

/** What decides how rows are read, as text; empty for no option. The order of options does not matter. */
export function columnOptionsText({ taken, ignored, nameFrom }: ColumnOptions): string {
  const columns = taken.map(({ column, field }) => `${column}=${field}`)
  const isUsual = columns.length + ignored.length === 0 && nameFrom === undefined
  return isUsual ? '' : JSON.stringify([columns.toSorted(), ignored.toSorted(), nameFrom])
}

/** Quoted so that bash and zsh take it as it is, also at their prompts, where `!` in double quotes is replaced. */
export function quoted(text: string): string {
  // Control characters would also change what a terminal shows.
  if (/\p{Cc}/u.test(text)) return `$'${text.replace(/[\p{Cc}'!\\]/gu, escapeUnit)}'`
  return /["$`\\!]/.test(text) ? `'${text.replaceAll("'", "'\\''")}'` : `"${text}"`
}

/** For a character below U+0100, in quotes that begin with `$'`. */
function escapeUnit(unit: string): string {
  const code = unit.charCodeAt(0).toString(16).padStart(2, '0')
  return code < '80' ? `\\x${code}` : `\\u00${code}`
}

/** A file of something else may have thousands of columns. */
const MAX_SHOWN_CHARS = 800

/** Columns in a message. */
export function listed(columns: readonly string[]): string {
  const text = columns.map(quoted).join(', ')
  return text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS)}…` : text || 'nothing'
}
