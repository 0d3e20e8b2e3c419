import { isUtf8 } from 'node:buffer'
import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { rightStart, type TextSource, wrongEncoding } from './decode-text.ts'
import { TOO_LONG } from './format.ts'
import { createJsonSplitter, type JsonRow, type RowsAt } from './json-splitter.ts'

/**
 * The records of JSON, in chunks.
 *
 * Throws `OperatorError` if it is not JSON, if a row is not in its encoding, or if there is no array at the path, after it
 * has yielded the rows before that place.
 */
export async function* jsonRecords(
  chunks: AsyncIterable<Buffer>,
  { rowsAt, ...source }: TextSource & { readonly rowsAt: RowsAt },
): AsyncGenerator<readonly ImportRecord[]> {
  const splitter = createJsonSplitter(rowsAt)

  function* batch(rows: readonly JsonRow[]) {
    const records: ImportRecord[] = []
    let error: OperatorError | undefined
    for (const row of rows) {
      const record = recordOf(row, source)
      if (record instanceof OperatorError) error = record
      else records.push(record)
      if (error !== undefined) break
    }
    yield records
    const fault = splitter.fault()
    if (error === undefined && fault !== undefined) error = notJson(source, fault)
    if (error !== undefined) throw error
  }

  for await (const chunk of chunks) yield* batch(splitter.push(chunk))
  yield* batch(splitter.end())
  if (typeof rowsAt === 'string' || splitter.hasArray()) return
  throw new OperatorError([`${source.file} has no array at ${rowsAt.join('.')}`])
}

/** `fault` is one of a splitter. */
export function notJson({ file }: TextSource, fault: string): OperatorError {
  return new OperatorError([`${file} is not JSON: ${fault}`])
}

function recordOf({ line, bytes }: JsonRow, source: TextSource): ImportRecord | OperatorError {
  if (bytes === undefined) return { line, raw: '', content: TOO_LONG }
  if (!isUtf8(bytes)) {
    const linesBefore = rightStart(bytes).toString().split('\n').length - 1
    return wrongEncoding(source, line + linesBefore)
  }
  const raw = bytes.toString()
  try {
    return { line, raw, content: { row: JSON.parse(raw) } }
  } catch {
    return notJson(source, `the row that begins at line ${line} has a mistake`)
  }
}
