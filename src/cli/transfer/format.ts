import { maskCredentials } from '../../config/url-parts.ts'
import { UsageError } from '../terminal/terminal.ts'

export const FILE_FORMATS = ['ndjson', 'csv'] as const

type Format = (typeof FILE_FORMATS)[number]

/** The options about the format. */
export interface FormatFlags {
  readonly format?: Format
  readonly delimiter?: string
}

/** Stands for standard input or output. */
export const STANDARD_STREAM = '-'

/** The longest row of any format, in bytes of UTF-8 without its line end. A user takes less than a tenth of it. */
export const MAX_ROW_BYTES = 1024 ** 2

/** The content of a record whose row is longer. Such a row is not parsed. */
export const TOO_LONG = { problem: `is longer than ${MAX_ROW_BYTES} bytes` }

const DELIMITERS = new Map(Object.entries({ comma: ',', semicolon: ';', tab: '\t', '\\t': '\t' }))

/**
 * The format from the options, otherwise from the name of the file; NDJSON for a standard stream. `delimiter` is one UTF-16
 * unit, and `undefined` without the option. Throws `UsageError`.
 */
export function formatOf(file: string, flags: FormatFlags) {
  const { format: name = formatByName(file), delimiter: text } = flags
  const isPacked = /.\.gz$/i.test(file)
  if (text === undefined) return { name, delimiter: undefined, isPacked }
  if (name !== 'csv') throw new UsageError('--delimiter is for CSV, but the format is NDJSON')
  const delimiter = DELIMITERS.get(text) ?? text
  if (/^[^"\r\n]$/.test(delimiter)) return { name, delimiter, isPacked }
  throw new UsageError(
    '--delimiter must be one character other than a quote, such as , or ; or else comma, semicolon or tab',
  )
}

function formatByName(file: string): Format {
  if (file === STANDARD_STREAM) return 'ndjson'
  const extension = /\.(ndjson|jsonl|csv)(\.gz)?$/i.exec(file)?.[1]
  if (extension !== undefined) return extension.toLowerCase() === 'csv' ? 'csv' : 'ndjson'
  throw new UsageError(
    `the name of ${JSON.stringify(maskCredentials(file))} does not end in .ndjson or .jsonl or .csv, with or without .gz: add --format ndjson or --format csv`,
  )
}
