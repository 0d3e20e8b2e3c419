import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { ColumnsError } from './choose-columns.ts'
import { quoted } from './column-options.ts'
import { SQL_HINT } from './format.ts'
import { fieldLike } from './look-alikes.ts'
import {
  MAX_ROW_CHARS,
  type OpenReader,
  type ReaderOptions,
  type RowReader,
  TOO_LONG,
} from './row-reader.ts'
import { type Container, JsonMistake, sampleOfJson, scanJson } from './scan-json.ts'

/** NDJSON, or a document of JSON: its first line, and whether more follows, show which. */
export const openJson: OpenReader = (text, options) => {
  const { at, file, name } = options
  const start = text.trimStart()
  // Each line of NDJSON is rejected for itself.
  if (name !== 'ndjson' && !/^([[{]|$)/.test(start)) {
    const isSql = /^(--|\/\*|(COPY|INSERT|CREATE|SET)\s)/i.test(start)
    const hint = isSql ? SQL_HINT : 'is not JSON; for a CSV file, add --format csv'
    throw new OperatorError([`${file} ${hint}`])
  }
  return at === undefined && hasRowPerLine(start, name)
    ? openNdjson(options)
    : openDocument(options)
}

/** Whether each line is a row. Otherwise there is one document, or objects of several lines. */
function hasRowPerLine(start: string, format: ReaderOptions['name']): boolean {
  const [, line = '', others = ''] = /^([^\n]*)(.*)$/s.exec(start) ?? []
  const isMore = others.trim() !== ''
  if (format !== 'ndjson')
    return isMore ? line.startsWith('{') && isJson(line) : start === '' && format === undefined
  // A row may have a mistake. An array on a line is a document, and so is what goes on at the next line.
  return isJson(line) ? isMore || !line.startsWith('[') : !isMore || !/[{[,]\s*$/.test(line)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Reads a value of JSON from each line. Empty lines are skipped. */
function openNdjson({ taken }: ReaderOptions): RowReader {
  let line = 1
  /** The part of the current line in earlier texts. Of one that is too long, its end, which does not fill the memory. */
  let rest = ''

  function recordOf(text: string, line: number): readonly ImportRecord[] {
    const raw = text.trim()
    if (raw.length > MAX_ROW_CHARS) return [{ line, raw: '', content: TOO_LONG }]
    if (raw === '') return []
    try {
      return [{ line, raw, content: { row: JSON.parse(raw) } }]
    } catch {
      const hint = line === 1 ? '; for a CSV file, add --format csv' : ''
      return [{ line, raw, content: { problem: `is not JSON${hint}` } }]
    }
  }

  return {
    push: text => {
      const lines = text.split('\n')
      lines[0] = rest + lines[0]
      rest = (lines.pop() as string).slice(-MAX_ROW_CHARS - 2)
      const start = line
      line += lines.length
      return lines.flatMap((text, index) => recordOf(text, start + index))
    },
    end: () => [recordOf(rest, line)],
    line: () => line,
    sampleOf: following => sampleOfJson(rest, following.split('\n', 1)[0] ?? '', taken),
  }
}

/** Some more characters do not fit into a string of JavaScript. */
const MAX_BYTES = 500_000_000

/**
 * Reads and checks a whole document of JSON: an array of rows; an object whose values are rows, by their ids; an object of which one
 * member is either; or rows one after the other. Its end throws `OperatorError` for one with a mistake, and if it is not clear
 * where the rows are, with the option that makes it so.
 */
function openDocument({ file, at, name: format, taken }: ReaderOptions): RowReader {
  const texts: string[] = []
  let bytes = 0
  /** Other places that may have users, as values of `--at`. */
  let elsewhere: readonly string[] = []
  const fail = (problem: string) => new OperatorError([`${file} ${problem}`])

  function findRows(text: string): Container {
    const [values, top, ...inner] = scanJson(text)
    const lists = inner.filter(isList)
    elsewhere = lists.map(({ path }) => path)
    const isOne = values.places.length === 3
    if (at !== undefined) {
      if (!isOne) throw new JsonMistake(`more text follows at line ${values.places[5]}`)
      const found = [top, ...inner].find(container => container?.path === at)
      if (found !== undefined && (found.isArray || isList(found))) return found
      if (top?.isArray && !/^\d/.test(at)) throw fail('is an array itself: leave --at out')
      const others = lists.length > 0 ? `; it ${adviseAt(elsewhere)}` : ''
      throw fail(`has no list of users at ${at}${others}`)
    }
    if (!isOne || top === undefined) return values
    if (top.isArray) return top
    if (format === 'ndjson' && (isList(top) || lists.length > 0))
      throw fail('is one object with lists in it: add --format json to import one of them')
    if (isList(top)) return top
    if (format !== 'json' && lists.every(isEmpty)) return values
    const member = onlyMember(lists)
    if (member !== undefined) return member
    if (lists.length > 0) throw fail(adviseAt(elsewhere))
    throw fail('is one object without an array of objects: if it is a user, add --format ndjson')
  }

  return {
    push: text => {
      texts.push(text)
      bytes += Buffer.byteLength(text)
      if (bytes > MAX_BYTES) throw fail(describeTooLong(file, at))
      return []
    },
    end: () => {
      const text = texts.join('')
      texts.length = 0
      try {
        return recordsAt(text, findRows(text).places)
      } catch (error) {
        throw error instanceof JsonMistake ? fail(`is not JSON: ${error.message}`) : error
      }
    },
    // Text by text: all of it together may be half a gigabyte.
    line: () => texts.reduce((line, text) => line + text.split('\n').length - 1, 1),
    sampleOf: rest => sampleOfJson(texts.join(''), rest, taken),
    requireUsers: columns => requireNoOther(columns, elsewhere),
  }
}

function isEmpty({ places }: Container): boolean {
  return places.length === 0
}

/** Whether the values of a container are rows: objects in an array, or by keys, which are no lists themselves. */
function isList(container: Container): boolean {
  const { isArray, places, rows } = container
  return isArray ? rows > 0 || isEmpty(container) : rows > 0 && rows === places.length / 3
}

/** The member of a document that has the rows: its only array of objects, or else its only object of objects or its empty array. */
function onlyMember(lists: readonly Container[]): Container | undefined {
  const members = lists.filter(({ depth }) => depth === 1)
  const full = members.filter(member => !isEmpty(member))
  const arrays = full.filter(({ isArray }) => isArray)
  const [likely = []] = [arrays, full, members.slice(0, 1)].filter(({ length }) => length > 0)
  return likely.length === 1 ? likely[0] : undefined
}

/** phpMyAdmin and others write tables as values of an array. */
function requireNoOther(known: readonly string[], elsewhere: readonly string[]): void {
  const isEmail = (column: string) => fieldLike(column) === 'email'
  if (known.some(isEmail)) return
  const places = elsewhere.filter(path => {
    const start = `${path.slice(path.indexOf('.') + 1)}.0.`
    return known.some(column => column.startsWith(start) && isEmail(column.slice(start.length)))
  })
  if (places.length > 0) throw new ColumnsError(`the file ${adviseAt(places)}`)
}

const MAX_SHOWN_PATHS = 10

/** What to add, as the first column of a line of places. */
function adviseAt(paths: readonly string[]): string {
  const likely = paths.find(path => /users?$/i.test(path)) ?? paths[0] ?? ''
  const shown = paths.slice(0, MAX_SHOWN_PATHS).join(', ')
  return `has lists of objects at ${shown}: add --at PATH, such as --at ${quoted(likely)}`
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
      const content = isTooLong ? TOO_LONG : { row: JSON.parse(raw) }
      records.push({ line, raw: isTooLong ? '' : raw, content })
    }
    yield records
  }
}

function describeTooLong(file: string, at: string | undefined): string {
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
