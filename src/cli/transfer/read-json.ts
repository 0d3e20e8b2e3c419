import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { quoted } from './column-options.ts'
import { type Format, MAX_ROW_CHARS, TOO_LONG } from './format.ts'
import { fieldLike } from './look-alikes.ts'
import type { OpenText } from './read-text.ts'
import { type Container, JsonMistake, type Walked, walkJson } from './walk-json.ts'
import { explainWrongByte } from './wrong-encoding.ts'

export interface JsonOptions extends Pick<OpenText, 'file' | 'textBytes'> {
  readonly format: Format | undefined
  /** The path of the rows, with dots. */
  readonly at: string | undefined
}

/** Some more characters do not fit into a string of JavaScript. */
const MAX_DOCUMENT_BYTES = 500_000_000

/**
 * Reads and checks a whole document of JSON: an array of rows; an object whose values are rows, by their ids; an object of which one
 * member is either; or rows one after the other. Throws `OperatorError` for one with a mistake or a byte that has no meaning, and
 * if it is not clear where the rows are, with the option that makes it so. `elsewhere` has other places that may have users, as
 * values of `--at`.
 */
export async function openJson(texts: AsyncIterable<string>, options: JsonOptions) {
  const { file } = options
  const text = await readWhole(texts, options)
  const fail = (problem: string) => new OperatorError([`${file} ${problem}`])
  try {
    return findRows(text, options, fail)
  } catch (error) {
    throw error instanceof JsonMistake ? fail(`is not JSON: ${error.message}`) : error
  }
}

function findRows(
  text: string,
  { at, format }: JsonOptions,
  fail: (problem: string) => OperatorError,
) {
  const { containers, places, rest } = walkJson(text, at?.split('.') ?? [])
  const [top] = containers
  const lists = containers.filter(container => container !== top && isList(container))
  const elsewhere = lists.map(({ path }) => path.join('.'))
  const open = (rows: readonly number[]) => ({ records: recordsAt(text, rows), elsewhere })

  if (at !== undefined) {
    if (rest !== undefined) throw new JsonMistake(`more text follows at line ${rest.line + 1}`)
    const found = containers.find(({ path }) => path.join('.') === at)
    if (found !== undefined && (found.isArray || isList(found))) return open(places)
    if (top?.isArray && !/^\d/.test(at)) throw fail('is an array itself: leave --at out')
    throw fail(
      `has no list of users at ${at}${lists.length > 0 ? `; it ${adviseAt(elsewhere)}` : ''}`,
    )
  }
  if (rest !== undefined) return open(topPlaces(text))
  if (top === undefined || top.isArray) return open(places)
  if (format === 'ndjson' && (isList(top) || lists.length > 0))
    throw fail('is one object with lists in it: add --format json to import one of them')
  if (isList(top)) return open(places)
  if (format !== 'json' && lists.every(({ size }) => size === 0)) return open(topPlaces(text))
  const member = onlyMember(lists)
  if (member !== undefined) return open(walkJson(text, member.path).places)
  if (lists.length > 0) throw fail(adviseAt(elsewhere))
  throw fail('is one object without an array of objects, so it has no rows')
}

/** The places of values one after the other. */
function topPlaces(text: string): readonly number[] {
  const all: number[] = []
  let from: Walked['rest'] = { offset: 0, line: 0 }
  while (from !== undefined) {
    const { places, rest }: Walked = walkJson(text, 'whole', from)
    all.push(...places)
    from = rest
  }
  return all
}

/** Whether the values of a container are rows: objects in an array, or by keys, which are no lists themselves. */
function isList({ isArray, size, objects, records }: Container): boolean {
  return isArray ? objects > 0 || size === 0 : size > 0 && records === size
}

/** The member of a document that has the rows: its only array of objects, or else its only object of objects or its empty array. */
function onlyMember(lists: readonly Container[]): Container | undefined {
  const members = lists.filter(({ path }) => path.length === 1)
  const full = members.filter(({ size }) => size > 0)
  const arrays = full.filter(({ isArray }) => isArray)
  const [member, ...others] =
    arrays.length > 0 ? arrays : full.length > 0 ? full : members.slice(0, 1)
  return others.length === 0 ? member : undefined
}

const MAX_SHOWN_PATHS = 10

/** What to add, as the first column of a line of places. */
export function adviseAt(paths: readonly string[]): string {
  const likely = paths.find(path => /users?$/i.test(path)) ?? paths[0] ?? ''
  const shown = paths.slice(0, MAX_SHOWN_PATHS).join(', ')
  return `has lists of objects at ${shown}: add --at PATH, such as --at ${quoted(likely)}`
}

/** How many rows there are in a chunk: enough for a transaction. */
const CHUNK_ROWS = 10_000

async function* recordsAt(
  text: string,
  places: readonly number[],
): AsyncGenerator<readonly ImportRecord[]> {
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

async function readWhole(texts: AsyncIterable<string>, options: JsonOptions): Promise<string> {
  const parts: string[] = []
  try {
    for await (const text of texts) {
      parts.push(text)
      if (options.textBytes() > MAX_DOCUMENT_BYTES) throw new OperatorError([tooLong(options)])
    }
    return parts.join('')
  } catch (error) {
    const text = parts.join('')
    throw explainWrongByte(error, text.split('\n').length, rest => sampleOfJson(text, rest))
  }
}

function tooLong({ file, at }: JsonOptions): string {
  const path = (at?.split('.') ?? []).map(name =>
    /^\d+$/.test(name) ? `[${name}]` : `[${JSON.stringify(name)}]`,
  )
  const jq = `jq -c ${quoted(`.${path.join('')}[]`)}`
  const command = /\.gz$/i.test(file)
    ? `gunzip -c ${quoted(file)} | ${jq}`
    : `${jq} ${quoted(file)}`
  const limit = MAX_DOCUMENT_BYTES.toLocaleString('en')
  return `${file} is longer than ${limit} bytes; NDJSON may have any length: ${command} > users.ndjson`
}

/** The text with a wrong byte, unless it is a password. */
function sampleOfJson(before: string, rest: Buffer): string | undefined {
  const member = /"([^"\\]{1,99})"\s{0,9}:\s{0,9}"([^"\\]{0,99})$/.exec(before.slice(-300))
  const [, name = '', start = ''] = member ?? []
  const [end = ''] = rest.toString('latin1', 0, 200).split('"', 1)
  return name === '' || fieldLike(name)?.startsWith('password') ? undefined : start + end
}

/**
 * The records of newline-delimited JSON, in chunks. Empty lines are skipped. Throws `OperatorError` at a byte that has no
 * meaning, after the rows before its line.
 */
export async function* readNdjson(
  texts: AsyncIterable<string>,
): AsyncGenerator<readonly ImportRecord[]> {
  let line = 0
  let rest = ''
  let isTooLong = false
  try {
    for await (const text of texts) {
      const lines = text.split('\n')
      lines[0] = rest + lines[0]
      rest = lines.pop() as string
      const records: ImportRecord[] = []
      for (const [index, raw] of lines.entries()) {
        const record = recordOf(raw, ++line, isTooLong && index === 0)
        if (record !== undefined) records.push(record)
      }
      if (lines.length > 0) isTooLong = false
      // Drops the start of a line that is too long, so that it does not fill the memory.
      isTooLong ||= rest.length > MAX_ROW_CHARS + 1
      if (isTooLong) rest = ''
      yield records
    }
  } catch (error) {
    throw explainWrongByte(error, line + 1, bytes => sampleOfJson(rest, bytes))
  }
  const last = recordOf(rest, line + 1, isTooLong)
  if (last !== undefined) yield [last]
}

function recordOf(text: string, line: number, isTooLong: boolean): ImportRecord | undefined {
  const raw = text.trim()
  if (isTooLong || raw.length > MAX_ROW_CHARS) return { line, raw: '', content: TOO_LONG }
  if (raw === '') return undefined
  try {
    return { line, raw, content: { row: JSON.parse(raw) } }
  } catch {
    const hint = line === 1 ? '; for a CSV file, add --format csv' : ''
    return { line, raw, content: { problem: `is not JSON${hint}` } }
  }
}
