import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { quoted } from './column-options.ts'
import { adviseAt, createJsonTable } from './json-table.ts'
import { sampleOfJson } from './ndjson.ts'
import { MAX_ROW_CHARS, type ReaderOptions, type RowReader, TOO_LONG } from './row-reader.ts'
import { type Container, JsonMistake, scanJson } from './scan-json.ts'

/** Some more characters do not fit into a string of JavaScript. */
const MAX_BYTES = 500_000_000

/**
 * Reads and checks a whole document of JSON: an array of rows; an object whose values are rows, by their ids; an object of which one
 * member is either; or rows one after the other. Its end throws `OperatorError` for one with a mistake, and if it is not clear
 * where the rows are, with the option that makes it so.
 */
export function openDocument(options: ReaderOptions): RowReader {
  const { file } = options
  const texts: string[] = []
  let bytes = 0
  /** Other places that may have users, as values of `--at`. */
  let elsewhere: readonly string[] = []
  const fail = (problem: string) => new OperatorError([`${file} ${problem}`])

  function findRows(text: string): readonly number[] {
    try {
      const found = rowsIn(text, options, fail)
      elsewhere = found.elsewhere
      return found.places
    } catch (error) {
      throw error instanceof JsonMistake ? fail(`is not JSON: ${error.message}`) : error
    }
  }

  return {
    push: text => {
      texts.push(text)
      bytes += Buffer.byteLength(text)
      if (bytes > MAX_BYTES) throw fail(tooLong(options))
      return []
    },
    end: () => {
      const text = texts.join('')
      texts.length = 0
      return recordsAt(text, findRows(text))
    },
    line: () => texts.join('').split('\n').length,
    sampleOf: rest => sampleOfJson(texts.join(''), rest),
    tableOf: ({ rows }, columns) => createJsonTable(rows, columns, elsewhere),
  }
}

/** The places of rows, as `scanJson` gives them. */
function rowsIn(
  text: string,
  { at, name: format }: ReaderOptions,
  fail: (problem: string) => OperatorError,
) {
  const { size, containers, places } = scanJson(text, at ?? '')
  const [top] = containers
  const lists = containers.filter(container => container !== top && isList(container))
  const elsewhere = lists.map(({ path }) => path)
  const placesAt = (path: string | undefined) => ({
    places: scanJson(text, path).places,
    elsewhere,
  })

  if (at !== undefined) {
    if (size > 1)
      throw new JsonMistake(`more text follows at line ${placesAt(undefined).places[5]}`)
    const found = containers.find(({ path }) => path === at)
    if (found !== undefined && (found.isArray || isList(found))) return { places, elsewhere }
    if (top?.isArray && !/^\d/.test(at)) throw fail('is an array itself: leave --at out')
    throw fail(
      `has no list of users at ${at}${lists.length > 0 ? `; it ${adviseAt(elsewhere)}` : ''}`,
    )
  }
  if (size > 1) return placesAt(undefined)
  if (top === undefined || top.isArray) return { places, elsewhere }
  if (format === 'ndjson' && (isList(top) || lists.length > 0))
    throw fail('is one object with lists in it: add --format json to import one of them')
  if (isList(top)) return { places, elsewhere }
  if (format !== 'json' && lists.every(({ size }) => size === 0)) return placesAt(undefined)
  const member = onlyMember(lists)
  if (member !== undefined) return placesAt(member.path)
  if (lists.length > 0) throw fail(adviseAt(elsewhere))
  throw fail('is one object without an array of objects, so it has no rows')
}

/** Whether the values of a container are rows: objects in an array, or by keys, which are no lists themselves. */
function isList({ isArray, size, rows }: Container): boolean {
  return isArray ? rows > 0 || size === 0 : size > 0 && rows === size
}

/** The member of a document that has the rows: its only array of objects, or else its only object of objects or its empty array. */
function onlyMember(lists: readonly Container[]): Container | undefined {
  const members = lists.filter(({ depth }) => depth === 1)
  const full = members.filter(({ size }) => size > 0)
  const arrays = full.filter(({ isArray }) => isArray)
  const [member, ...others] =
    arrays.length > 0 ? arrays : full.length > 0 ? full : members.slice(0, 1)
  return others.length === 0 ? member : undefined
}

/** How many rows there are in a chunk: enough for a transaction. */
const CHUNK_ROWS = 10_000

function* recordsAt(text: string, places: readonly number[]): Generator<readonly ImportRecord[]> {
  for (let from = 0; from < places.length; from += 3 * CHUNK_ROWS) {
    const records: ImportRecord[] = []
    for (let index = from; index < Math.min(places.length, from + 3 * CHUNK_ROWS); index += 3) {
      const line = places[index + 2] as number
      const raw = text.slice(places[index], places[index + 1])
      const isTooLong = raw.length > MAX_ROW_CHARS
      records.push(
        isTooLong
          ? { line, raw: '', content: TOO_LONG }
          : { line, raw, content: { row: JSON.parse(raw) } },
      )
    }
    yield records
  }
}

function tooLong({ file, at }: ReaderOptions): string {
  const path = (at?.split('.') ?? []).map(name =>
    /^\d+$/.test(name) ? `[${name}]` : `[${JSON.stringify(name)}]`,
  )
  const jq = `jq -c ${quoted(`.${path.join('')}[]`)}`
  const command = /\.gz$/i.test(file)
    ? `gunzip -c ${quoted(file)} | ${jq}`
    : `${jq} ${quoted(file)}`
  const limit = MAX_BYTES.toLocaleString('en')
  return `is longer than ${limit} bytes; NDJSON may have any length: ${command} > users.ndjson`
}
