import { extname } from 'node:path'
import { UsageError } from '../terminal/command-context.ts'

export const FILE_FORMATS = ['ndjson', 'csv'] as const

/** The options about the format. */
export interface FormatFlags {
  readonly format?: (typeof FILE_FORMATS)[number]
  readonly delimiter?: string
}

/** The format of a file. */
export interface FileFormat {
  readonly name: (typeof FILE_FORMATS)[number]
  /** Separates the fields of CSV, one UTF-16 unit; `undefined` without the option. */
  readonly delimiter: string | undefined
  /** Whether its name says that it is packed with gzip. */
  readonly isPacked: boolean
}

/** Stands for standard input or output. */
export const STANDARD_STREAM = '-'

const PACKED = '.gz'

const FORMATS_BY_EXTENSION: Readonly<Record<string, FileFormat['name']>> = {
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
}

const DELIMITERS_BY_NAME: Readonly<Record<string, string>> = {
  comma: ',',
  semicolon: ';',
  tab: '\t',
  '\\t': '\t',
}

/** The format from the options, otherwise from the name of the file; NDJSON for a standard stream. Throws `UsageError`. */
export function formatOf(file: string, asked: FormatFlags): FileFormat {
  const name = asked.format ?? formatByName(file)
  const isPacked = isPackedByName(file)
  if (asked.delimiter === undefined) return { name, delimiter: undefined, isPacked }
  if (name !== 'csv') throw new UsageError('--delimiter is for CSV, but the format is NDJSON')
  return { name, delimiter: parseDelimiter(asked.delimiter), isPacked }
}

function formatByName(file: string): FileFormat['name'] {
  if (file === STANDARD_STREAM) return 'ndjson'
  const inner = isPackedByName(file) ? file.slice(0, -PACKED.length) : file
  const format = FORMATS_BY_EXTENSION[extname(inner).toLowerCase()]
  if (format !== undefined) return format
  const extensions = Object.keys(FORMATS_BY_EXTENSION).join(' or ')
  throw new UsageError(
    `the name of ${JSON.stringify(file)} does not end in ${extensions}, with or without .gz: add --format ndjson or --format csv`,
  )
}

function isPackedByName(file: string): boolean {
  return extname(file).toLowerCase() === PACKED
}

/** `--delimiter` is one character, or the name of one that is hard to type. Throws `UsageError`. */
function parseDelimiter(text: string): string {
  const delimiter = DELIMITERS_BY_NAME[text] ?? text
  if (delimiter.length === 1 && !'"\r\n'.includes(delimiter)) return delimiter
  throw new UsageError(
    '--delimiter must be one character other than a quote, such as , or ; or else comma, semicolon or tab',
  )
}
