import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import type { InputFormat } from './format.ts'
import type { OpenText } from './open-text.ts'
import { CSV } from './read-csv.ts'
import { readFirst } from './read-first.ts'
import { JSON_ROWS } from './read-json.ts'
import { explainWrongByte } from './text-encodings.ts'

/** Reads the rows of a text, in chunks and to be read once. */
export async function readRows(
  { file, texts }: Pick<OpenText, 'file' | 'texts'>,
  format: InputFormat,
) {
  const { isEnough, openReader } = format.name === 'csv' ? CSV : JSON_ROWS
  const { first, all } = await readFirst(texts, some => isEnough(some.join('')))
  const start = first.join('')
  const reader = openReader(start, { ...format, file })

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

  return { rows: rows(), tableOf: reader.tableOf }
}
