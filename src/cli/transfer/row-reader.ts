import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import type { ColumnOptions } from './column-options.ts'
import type { InputFormat } from './format.ts'

/** The longest row of any format, in UTF-16 units without its line end. A user takes less than a tenth of it. */
export const MAX_ROW_CHARS = 1024 ** 2

/** The content of a record whose row is longer. Such a row is not parsed. */
export const TOO_LONG = { problem: `is longer than ${MAX_ROW_CHARS} characters` }

/** Turns the texts of a file into rows. It throws `OperatorError` where they cannot be read, after the rows before that place. */
export interface RowReader {
  /** The rows that end in a text. */
  push(text: string): readonly ImportRecord[]
  /** The rows that end with the file, in chunks. */
  end(): Iterable<readonly ImportRecord[]>
  /** The line at which the texts so far end, from 1. */
  line(): number
  /** Of a row that goes on with a wrong byte: its name or another text that is no password, each unit of `rest` a byte. */
  sampleOf(rest: string): string | undefined
  /** Of CSV, once its first rows were read. */
  header?(): CsvHeader
  /** Throws `ColumnsError` if the columns of the first rows have no e-mails, and another place of the file has. */
  requireUsers?(columns: readonly string[]): void
}

export interface CsvHeader {
  /** The first line, trimmed. Columns without a heading have an empty one. */
  readonly headings: readonly string[]
  readonly delimiter: string
}

/** Opens a reader by the start of a file. Throws `OperatorError` for what is no file of its format. */
export type OpenReader = (start: string, options: ReaderOptions) => RowReader

export interface ReaderOptions extends InputFormat, Pick<ColumnOptions, 'taken'> {
  /** The name of the file in messages. */
  readonly file: string
  /** Called with a line about a column that is left. */
  readonly say: (line: string) => void
}
