import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import { UsageError } from '../terminal/terminal.ts'

export interface ColumnFlags {
  /** Each as `COLUMN=FIELD`. */
  readonly column?: readonly string[]
  readonly ignore?: readonly string[]
  readonly nameFrom?: 'email'
  /** Cells of CSV that mean nothing. */
  readonly null?: readonly string[]
  readonly escape?: 'backslash'
}

export interface ColumnOptions extends Omit<ColumnFlags, 'column' | 'ignore'> {
  /** Columns, or paths of JSON such as `credentials.0.hash`, and the fields as which they are read. */
  readonly taken: readonly { readonly column: string; readonly field: string }[]
  readonly ignored: readonly string[]
}

/** The options about columns. Throws `UsageError` if they fit no file. */
export function parseColumnFlags({
  column: columns = [],
  ignore = [],
  ...others
}: ColumnFlags): ColumnOptions {
  // What a message proposes may be given already. The order is that of what was added last.
  const taken = [...new Set(columns.toReversed())].toReversed().map(parseTaken)
  for (const [index, { column, field }] of taken.entries()) {
    const other = taken.slice(0, index).find(earlier => earlier.field === field)
    // The parts of a name are joined.
    if (other !== undefined && field !== 'name')
      throw new UsageError(
        `--column takes both ${quoted(other.column)} and ${quoted(column)} as ${field}`,
      )
    if (ignore.includes(column))
      throw new UsageError(`--column and --ignore both name ${quoted(column)}`)
  }
  return { ...others, taken, ignored: ignore }
}

/** A column may have an equals sign in its name, a field has none. */
function parseTaken(text: string) {
  const [, column, field = ''] = /^(.+)=(.*)$/s.exec(text) ?? []
  if (column === undefined)
    throw new UsageError(`--column ${quoted(text)} must be COLUMN=FIELD, such as "E-Mail=email"`)
  if (IMPORT_COLUMNS.includes(field)) return { column, field }
  const fields = IMPORT_COLUMNS.join(', ')
  throw new UsageError(
    `--column ${quoted(text)}: there is no field ${quoted(field)}; fields are ${fields}`,
  )
}

/** What decides how rows are read, as text. The order of options does not matter, but for parts of a name. */
export function columnOptionsText(options: ColumnOptions): string {
  const { taken, ignored, nameFrom, null: nulls, escape: escaping } = options
  const columns = IMPORT_COLUMNS.map(name => taken.filter(({ field }) => field === name))
  return JSON.stringify([columns, ignored.toSorted(), nameFrom, nulls?.toSorted(), escaping])
}

/** Names a user without a name by the part of the e-mail before the @. */
export function nameFromEmail(row: Record<string, unknown>): void {
  const { name, email } = row
  const isNamed = name != null && (typeof name !== 'string' || name.trim() !== '')
  if (typeof email === 'string' && !isNamed) row.name = email.split('@', 1)[0]
}

/** The value of a field from those of its columns. Texts get a blank between them. Anything else stays as it is, to be rejected. */
export function fieldValue(
  columns: readonly string[],
  valueAt: (column: string) => unknown,
): unknown {
  if (columns.length === 1) return valueAt(columns[0] as string)
  const given = columns.map(valueAt).filter(value => value != null && value !== '')
  const other = given.find(value => typeof value !== 'string')
  if (other !== undefined) return other
  const texts = given.map(text => String(text).trim())
  return texts.filter(text => text !== '').join(' ') || undefined
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
