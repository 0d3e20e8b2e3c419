import { extname } from 'node:path'
import { UsageError } from './command-context.ts'

export const FILE_FORMATS = ['ndjson', 'csv'] as const

export type FileFormat = (typeof FILE_FORMATS)[number]

/** Stands for standard input or output. */
export const STANDARD_STREAM = '-'

const FORMATS_BY_EXTENSION: Readonly<Record<string, FileFormat>> = {
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
}

/** The format that was asked for or that the name of the file tells; NDJSON for a stream. Throws `UsageError`. */
export function formatOf(file: string, asked: FileFormat | undefined): FileFormat {
  const told =
    file === STANDARD_STREAM ? 'ndjson' : FORMATS_BY_EXTENSION[extname(file).toLowerCase()]
  const format = asked ?? told
  if (format !== undefined) return format
  const extensions = Object.keys(FORMATS_BY_EXTENSION).join(', ')
  throw new UsageError(
    `the name of ${JSON.stringify(file)} ends in none of ${extensions}: say --format ndjson or --format csv`,
  )
}
