import { MAX_ROW_BYTES } from './format.ts'

export interface CsvRow {
  /** The line at which it begins, from 1. */
  readonly line: number
  /** `undefined` for a row longer than `MAX_ROW_BYTES`. */
  readonly fields: readonly string[] | undefined
}

/**
 * Parses CSV by RFC 4180 in pieces. Lines end in LF, CRLF or CR; empty lines are skipped, and so are
 * blanks around quotes.
 */
export type CsvParser = ReturnType<typeof createCsvParser>

const LF = 10
const CR = 13
const QUOTE = 34
const SPACE = 32
const TAB = 9
const BLANKS = /^[ \t]*$/

/** Where the next character is. */
type State = 'row start' | 'field start' | 'plain' | 'quoted' | 'after quote' | 'closed'

/** `delimiter` is one UTF-16 unit. */
export function createCsvParser(delimiter: string) {
  const delimiterUnit = delimiter.charCodeAt(0)
  let state: State = 'row start'
  let previous = 0
  let line = 1
  let rowLine = 1
  let fields: string[] = []
  /** The part of the current field in earlier pieces of text and before earlier quotes. */
  let field = ''
  /** Bytes of the current row in earlier pieces of text. */
  let rowBytes = 0
  let fault: string | undefined

  /** The rows that end in this text, or before its first fault. */
  function push(text: string): readonly CsvRow[] {
    const rows: CsvRow[] = []
    let fieldFrom = 0
    let rowFrom = 0

    function endField(at: number): void {
      if (state !== 'after quote' && state !== 'closed') field += text.slice(fieldFrom, at)
      fields.push(field)
      field = ''
      fieldFrom = at + 1
    }

    function endRow(at: number): void {
      if (state !== 'row start') {
        endField(at)
        // Counting takes time, and a UTF-16 unit is at most three bytes of UTF-8.
        const isSurelyShort = rowBytes === 0 && 3 * (at - rowFrom) <= MAX_ROW_BYTES
        if (!isSurelyShort) rowBytes += Buffer.byteLength(text.slice(rowFrom, at))
        rows.push(takeRow())
      }
      fieldFrom = at + 1
      rowFrom = at + 1
      rowLine = line
      state = 'row start'
    }

    for (let at = 0; at < text.length && fault === undefined; at++) {
      const unit = text.charCodeAt(at)
      const isSecondOfTwo = unit === LF && previous === CR
      const isBreak = unit === LF || unit === CR
      previous = unit
      if (isBreak && !isSecondOfTwo) line++
      if (state === 'quoted') {
        if (unit !== QUOTE) continue
        field += text.slice(fieldFrom, at)
        state = 'after quote'
      } else if (isBreak) endRow(at)
      else if (unit === delimiterUnit) {
        endField(at)
        state = 'field start'
      } else if (unit === QUOTE) {
        // Two quotes in a quoted field stand for one.
        if (state === 'after quote') fieldFrom = at
        else if (state !== 'closed' && BLANKS.test(field + text.slice(fieldFrom, at))) {
          field = ''
          fieldFrom = at + 1
        } else fault = `quotes do not match at line ${line}`
        state = 'quoted'
      } else if (state === 'after quote' || state === 'closed') {
        if (unit !== SPACE && unit !== TAB) fault = `quotes do not match at line ${line}`
        state = 'closed'
      } else state = 'plain'
    }
    if (state === 'plain' || state === 'quoted') field += text.slice(fieldFrom)
    rowBytes += Buffer.byteLength(text.slice(rowFrom))
    // Drops the fields of a row that is too long, so that it does not fill the memory.
    if (rowBytes > MAX_ROW_BYTES) [fields, field] = [[], '']
    return rows
  }

  function takeRow(): CsvRow {
    const row = { line: rowLine, fields: rowBytes > MAX_ROW_BYTES ? undefined : fields }
    fields = []
    rowBytes = 0
    return row
  }

  /** The last row, if no line end follows it. */
  function end(): readonly CsvRow[] {
    if (state === 'quoted')
      fault ??= `a quote is not closed in the row that begins at line ${rowLine}`
    if (fault !== undefined || state === 'row start') return []
    fields.push(field)
    field = ''
    state = 'row start'
    return [takeRow()]
  }

  return {
    push,
    end,
    /** Why nothing more can be parsed. Never quotes the file, which may hold passwords. */
    fault: () => fault,
    /** The line at which the text so far ends, from 1. */
    line: () => line,
  }
}
