import { MAX_ROW_CHARS } from './row-reader.ts'

export interface CsvRow {
  /** The line at which it begins, from 1. */
  readonly line: number
  /** `undefined` for a row longer than `MAX_ROW_CHARS`. */
  readonly fields: readonly string[] | undefined
}

export interface CsvSyntax {
  /** One UTF-16 unit. */
  readonly delimiter: string
  /** Whether a backslash gives the next character another meaning, as in the text formats of MySQL and PostgreSQL. */
  readonly hasEscapes: boolean
  /** Whether fields may be in quotes. */
  readonly hasQuotes: boolean
}

const LF = 10
const CR = 13
const QUOTE = 34
const SPACE = 32
const TAB = 9
const BACKSLASH = 92
const BLANKS = /^[ \t]*$/

/** Where the next character is. */
type State = 'row start' | 'field start' | 'plain' | 'quoted' | 'after quote' | 'closed'

/**
 * Parses CSV by RFC 4180 in pieces. Lines end in LF, CRLF or CR; empty lines are skipped, and so are
 * blanks around quotes.
 */
export function createCsvParser({ delimiter, hasEscapes, hasQuotes }: CsvSyntax) {
  const delimiterUnit = delimiter.charCodeAt(0)
  let state: State = 'row start'
  let previous = 0
  let line = 1
  let rowLine = 1
  let fields: string[] = []
  /** The part of the current field in earlier pieces of text and before earlier quotes. */
  let field = ''
  /** Length of the current row in earlier pieces of text. */
  let rowChars = 0
  let isEscaped = false
  let fault: string | undefined

  /** Whether a quoted field has ended, unless another quote follows. */
  const isClosed = () => state === 'after quote' || state === 'closed'

  /** The rows that end in this text, or before its first fault. */
  function push(text: string): readonly CsvRow[] {
    const rows: CsvRow[] = []
    let fieldFrom = 0
    let rowFrom = 0

    function endField(at: number): void {
      if (!isClosed()) field += text.slice(fieldFrom, at)
      takeField()
      fieldFrom = at + 1
    }

    function endRow(at: number): void {
      if (state !== 'row start') {
        endField(at)
        rowChars += at - rowFrom
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
      if (isEscaped) {
        isEscaped = false
      } else if (hasEscapes && unit === BACKSLASH && !isClosed()) {
        isEscaped = true
        if (state !== 'quoted') state = 'plain'
      } else if (state === 'quoted') {
        if (unit !== QUOTE) continue
        field += text.slice(fieldFrom, at)
        state = 'after quote'
      } else if (isBreak) endRow(at)
      else if (unit === delimiterUnit) {
        endField(at)
        state = 'field start'
      } else if (hasQuotes && unit === QUOTE) {
        // Two quotes in a quoted field stand for one.
        if (state === 'after quote') fieldFrom = at
        else if (state !== 'closed' && BLANKS.test(field + text.slice(fieldFrom, at))) {
          field = ''
          fieldFrom = at + 1
        } else fault = `quotes do not match at line ${line}`
        state = 'quoted'
      } else if (isClosed()) {
        if (unit !== SPACE && unit !== TAB) fault = `quotes do not match at line ${line}`
        state = 'closed'
      } else state = 'plain'
    }
    if (state === 'plain' || state === 'quoted') field += text.slice(fieldFrom)
    rowChars += text.length - rowFrom
    // Drops the fields of a row that is too long, so that it does not fill the memory.
    if (rowChars > MAX_ROW_CHARS) [fields, field] = [[], '']
    return rows
  }

  function takeField(): void {
    fields.push(hasEscapes && field.includes('\\') ? unescapeField(field) : field)
    field = ''
  }

  function takeRow(): CsvRow {
    const row = { line: rowLine, fields: rowChars > MAX_ROW_CHARS ? undefined : fields }
    fields = []
    rowChars = 0
    return row
  }

  /** The last row, if no line end follows it. */
  function end(): readonly CsvRow[] {
    if (state === 'quoted')
      fault ??= `a quote is not closed in the row that begins at line ${rowLine}`
    if (fault !== undefined || state === 'row start') return []
    takeField()
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

/** https://dev.mysql.com/doc/refman/8.4/en/load-data.html, and COPY of PostgreSQL, which has the same. */
const ESCAPES: Readonly<Record<string, string>> = {
  ...{ 0: '\0', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', Z: '\x1a' },
}

function unescapeField(field: string): string {
  if (field === '\\N') return ''
  return field.replace(/\\(.)/gs, (_, unit: string) => ESCAPES[unit] ?? unit)
}
