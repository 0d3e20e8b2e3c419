import { maskCredentials } from '../../config/url-parts.ts'
import { UsageError } from '../terminal/terminal.ts'
import type { ColumnFlags } from './column-options.ts'
import { encodingOf } from './text-encodings.ts'

export const EXPORT_FORMATS = ['ndjson', 'csv'] as const

export const IMPORT_FORMATS = [...EXPORT_FORMATS, 'json'] as const

/** The options about the format of a file. */
export interface FormatFlags<F extends Format> {
  readonly format?: F
  readonly delimiter?: string
}

/** The options about what an import reads. */
export interface InputFlags extends FormatFlags<Format>, Pick<ColumnFlags, 'null' | 'escape'> {
  readonly encoding?: string
  readonly at?: string
}

export type InputFormat = ReturnType<typeof inputFormatOf>

export type Format = (typeof IMPORT_FORMATS)[number]

/** Stands for standard input or output. */
export const STANDARD_STREAM = '-'

const DELIMITERS = new Map(Object.entries({ comma: ',', semicolon: ';', tab: '\t', '\\t': '\t' }))

/**
 * The format from the options, otherwise from the name of the file, and `undefined` for a standard stream. `delimiter` is one
 * UTF-16 unit, and `undefined` if neither the option nor the name of the file tells it. Throws `UsageError`.
 */
export function formatOf<F extends Format>(
  file: string,
  flags: FormatFlags<F>,
  formats: readonly F[],
) {
  const name = flags.format ?? formatByName(file, formats)
  const isPacked = /.\.gz$/i.test(file)
  const byName = name === 'csv' && /\.tsv(\.gz)?$/i.test(file) ? '\t' : undefined
  if (flags.delimiter === undefined) return { name, delimiter: byName, isPacked }
  if (name !== 'csv') {
    const other =
      name === undefined ? ': add --format csv' : `, but the format is ${name.toUpperCase()}`
    throw new UsageError(`--delimiter is for CSV${other}`)
  }
  const delimiter = DELIMITERS.get(flags.delimiter) ?? flags.delimiter
  if (/^[^"\r\n]$/.test(delimiter)) return { name, delimiter, isPacked }
  const examples = 'such as , or ; or else comma, semicolon or tab'
  throw new UsageError(`--delimiter must be one character other than a quote, ${examples}`)
}

/** What an import reads, after the options about it. Throws `UsageError` if they are wrong. */
export function inputFormatOf(file: string, flags: InputFlags) {
  const { at, encoding } = flags
  const { name, ...format } = formatOf(file, flags, IMPORT_FORMATS)
  if (at !== undefined && name !== undefined && name !== 'json')
    throw new UsageError(`--at is for JSON, but the format is ${name.toUpperCase()}`)
  if (name !== 'csv' && (flags.null ?? flags.escape) !== undefined)
    throw new UsageError('--null and --escape are for CSV')
  return {
    ...format,
    name: at === undefined ? name : 'json',
    at,
    encoding: encoding === undefined ? undefined : encodingOf(encoding),
    /** Whether a backslash in CSV gives the next character another meaning. */
    hasEscapes: flags.escape !== undefined,
    /** Cells of CSV that mean nothing, besides empty ones. */
    nulls: flags.null,
  }
}

/** What to do with a workbook, whose sheets are not text. */
export const WORKBOOK_HINT =
  'is a workbook of Excel or another spreadsheet: save its sheet as "CSV UTF-8", and import that file'

/** What to do with a dump. */
export const SQL_HINT =
  "is SQL: export the table with \\copy users TO 'users.csv' CSV HEADER in psql, and import that file"

const HINTS = [
  { extensions: /^(xlsx|xlsm|xlsb|xls|ods|numbers)$/, hint: WORKBOOK_HINT },
  { extensions: /^sql$/, hint: SQL_HINT },
]

const EXTENSIONS: Readonly<Record<Format, readonly string[]>> = {
  ndjson: ['ndjson', 'jsonl'],
  csv: ['csv', 'tsv'],
  json: ['json'],
}

function formatByName<F extends Format>(file: string, formats: readonly F[]): F | undefined {
  if (file === STANDARD_STREAM) return undefined
  const extension = /\.(\w+?)(\.gz)?$/.exec(file.toLowerCase())?.[1] ?? ''
  const name = formats.find(format => EXTENSIONS[format].includes(extension))
  if (name !== undefined) return name
  const shown = JSON.stringify(maskCredentials(file))
  const other = HINTS.find(({ extensions }) => extensions.test(extension))
  if (other !== undefined) throw new UsageError(`${shown} ${other.hint}`)
  const extensions = formats.flatMap(format => EXTENSIONS[format].map(known => `.${known}`))
  const options = formats.map(format => `--format ${format}`)
  throw new UsageError(
    `the name of ${shown} does not end in ${extensions.join(' or ')}, with or without .gz: add ${options.join(' or ')}`,
  )
}
