import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import type { CsvHeader } from './csv-header.ts'
import type { InputFormat } from './format.ts'
import type { OpenText } from './open-text.ts'
import { readFirst } from './read-first.ts'
import { explainWrongByte } from './text-encodings.ts'

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
  /** Lines about columns that are left, to be taken from here. */
  readonly news?: string[]
  /** Throws `ColumnsError` if the columns of the first rows have no e-mails, and another place of the file has. */
  requireUsers?(columns: readonly string[]): void
}

export interface ReaderOptions extends InputFormat {
  /** The name of the file in messages. */
  readonly file: string
}

/** A format of rows. */
export interface RowFormat {
  /** Whether the start of a file is enough to open it. */
  isEnough(start: string): boolean
  /** Throws `OperatorError` for what is no file of this format. */
  openReader(start: string, options: ReaderOptions): RowReader
}

/** Reads the rows of a text, in chunks and to be read once. */
export async function readRows(
  { isEnough, openReader }: RowFormat,
  { file, texts }: Pick<OpenText, 'file' | 'texts'>,
  options: InputFormat,
) {
  const { first, all } = await readFirst(texts, some => isEnough(some.join('')))
  const start = first.join('')
  const reader = openReader(start, { ...options, file })

  async function* rows(): AsyncGenerator<readonly ImportRecord[]> {
    try {
      for await (const text of all([start])) {
        const chunk = reader.push(text)
        if (chunk.length > 0) yield chunk
      }
    } catch (error) {
      throw explainWrongByte(error, reader)
    }
    yield* reader.end()
  }

  return { rows: rows(), reader }
}
