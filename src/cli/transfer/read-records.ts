import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { nameOf } from '../../users/transfer/user-import.ts'
import { UsageError } from '../terminal/terminal.ts'
import { type ChoiceOptions, chooseCsvColumns, chooseJsonColumns } from './choose-columns.ts'
import { afterStart, readAhead } from './chunks.ts'
import { csvRecords } from './csv-records.ts'
import { encodingOf, utf8Chunks } from './decode-text.ts'
import { type FileOptions, openInputFile } from './files.ts'
import { findRows } from './find-rows.ts'
import { formatOf, IMPORT_FORMATS, type InputFlags, MAX_ROW_BYTES, SQL_HINT } from './format.ts'
import { jsonRecords } from './json-records.ts'
import { ndjsonRecords } from './ndjson-records.ts'

/** What an import reads, after the options about it. Throws `UsageError` if they are wrong. */
export function inputFormatOf(file: string, flags: InputFlags) {
  const { at, encoding } = flags
  const { name, ...format } = formatOf(file, flags, IMPORT_FORMATS)
  if (at !== undefined && name !== undefined && name !== 'json')
    throw new UsageError(`--at is for JSON, but the format is ${name.toUpperCase()}`)
  return {
    ...format,
    name: at === undefined ? name : 'json',
    at,
    encoding: encoding === undefined ? undefined : encodingOf(encoding),
  }
}

type InputFormat = ReturnType<typeof inputFormatOf>

export interface ImportFileOptions extends Omit<FileOptions, 'isPacked'> {
  readonly format: InputFormat
  readonly columns: ChoiceOptions
}

/** Opens a file, or standard input, for an import. Throws as `openInputFile` does. */
export function openRecords(file: string, { format, columns, ...options }: ImportFileOptions) {
  const input = openInputFile(file, { ...options, isPacked: format.isPacked })
  const source = { ...format, file: nameOf(file) }
  return { records: readRecords(input, source, columns), share: input.share }
}

interface Source extends InputFormat {
  /** The name of the file in messages. */
  readonly file: string
}

/** Shows whether each line of JSON is a row: its first line and more, or so much of it. */
function isEnough(start: Buffer): boolean {
  const text = start.toString('latin1').trimStart()
  const end = text.indexOf('\n')
  return start.length >= 64 * 1024 || (end >= 0 && text.slice(end).trim() !== '')
}

function readRecords(
  input: ReturnType<typeof openInputFile>,
  source: Source,
  columns: ChoiceOptions,
): AsyncIterable<readonly ImportRecord[]> {
  const open = () => utf8Chunks(input.read(), source)
  if (source.name === 'csv') {
    return chooseCsvColumns(listener => csvRecords(open(), { ...source, ...listener }), columns)
  }
  const records = afterStart(open(), isEnough, (start, all) => {
    const text = start.subarray(0, MAX_ROW_BYTES).toString().trimStart()
    requireJson(text, source)
    if (source.at === undefined && hasRowPerLine(text, source.name))
      return ndjsonRecords(all, source)
    return documentRecords(all, {
      ...source,
      isArray: text.startsWith('['),
      canRepeat: input.canRepeat,
      open,
    })
  })
  return chooseJsonColumns(records, columns)
}

/** Throws `OperatorError` for text that is surely no JSON. Each line of NDJSON is rejected for itself. */
function requireJson(text: string, { name, file }: Source): void {
  if (name === 'ndjson' || /^([[{]|$)/.test(text)) return
  const isSql = /^(--|\/\*|(COPY|INSERT|CREATE|SET)\s)/i.test(text)
  const hint = isSql ? SQL_HINT : 'is not JSON; for a CSV file, add --format csv'
  throw new OperatorError([`${file} ${hint}`])
}

/** Whether each line is a row. Otherwise there is one document, or objects of several lines. */
function hasRowPerLine(start: string, format: Source['name']): boolean {
  const [line = '', ...others] = start.split(/\r?\n/)
  const isObject = line.startsWith('{') && isJson(line)
  const isMore = others.some(other => other.trim() !== '')
  if (format === 'json') return isObject && isMore
  if (format === undefined) return (isObject && isMore) || line === ''
  if (line.startsWith('[')) return isMore && isJson(line)
  // A row with a mistake rather than the first line of an object of several lines.
  return isObject || !isMore || !/[{[,]\s*$/.test(line)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** How much is read ahead of a stream, which cannot be read again. */
const MAX_HELD_BYTES = 16 * 1024 ** 2

async function* documentRecords(
  all: AsyncGenerator<Buffer>,
  source: Source & {
    readonly isArray: boolean
    readonly canRepeat: boolean
    readonly open: () => AsyncIterable<Buffer>
  },
): AsyncGenerator<readonly ImportRecord[]> {
  const { file, at, isArray, canRepeat, open } = source
  if (isArray && at !== undefined)
    throw new OperatorError([`${file} is an array itself: leave --at out`])
  if (isArray || at !== undefined) {
    yield* jsonRecords(all, { ...source, rowsAt: at?.split('.') ?? [] })
    return
  }
  const onLimit = () => {
    throw new OperatorError([
      `${file} is too long to look for its array of users: add --at PATH, such as --at users`,
    ])
  }
  const { ahead, again } = canRepeat
    ? { ahead: open, again: () => all }
    : readAhead(all, MAX_HELD_BYTES, onLimit)
  yield* jsonRecords(again(), { ...source, rowsAt: await findRows(ahead(), source) })
}
