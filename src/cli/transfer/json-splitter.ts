import { MAX_ROW_BYTES } from './format.ts'

export interface JsonRow {
  /** The line at which it begins, from 1. */
  readonly line: number
  /** `undefined` for a row longer than `MAX_ROW_BYTES`. */
  readonly bytes: Buffer | undefined
}

/**
 * Which values are rows: those of the array at a path of names, which is empty for the document itself; all values of the
 * top level; or none, because arrays of objects are looked for.
 */
export type RowsAt = readonly string[] | 'top level' | 'none'

const [LF, CR, TAB, SPACE, COMMA, COLON, QUOTE, BACKSLASH] = Buffer.from('\n\r\t ,:"\\')
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = Buffer.from('{}[]')

const FIRST_BYTES = Buffer.from('{["-0123456789tfn')

/** What may come next between tokens: a value, a name, a closing bracket, or a mark and then something else. */
interface Rule {
  readonly says: string
  readonly takes?: 'value' | 'name'
  readonly close?: number | undefined
  readonly mark?: number | undefined
  readonly andThen?: keyof typeof RULES
}

const RULES = {
  value: { says: 'a value', takes: 'value' },
  firstValue: { says: 'a value or ]', takes: 'value', close: CLOSE_ARRAY },
  afterValue: { says: 'a comma or ]', close: CLOSE_ARRAY, mark: COMMA, andThen: 'value' },
  name: { says: 'a name in quotes', takes: 'name' },
  firstName: { says: 'a name in quotes or }', takes: 'name', close: CLOSE_OBJECT },
  colon: { says: 'a colon', mark: COLON, andThen: 'value' },
  afterMember: { says: 'a comma or }', close: CLOSE_OBJECT, mark: COMMA, andThen: 'name' },
  end: { says: 'the end of the file' },
} as const

/** How deep arrays are looked for, and how many are kept. */
const MAX_DEPTH = 8
const MAX_FOUND = 100

/** Splits JSON into the texts of its rows, in pieces. Rows and values that are skipped are not checked. */
export function createJsonSplitter(rowsAt: RowsAt) {
  let line = 1
  let fault: string | undefined
  let next: keyof typeof RULES = 'value'
  let topValues = 0
  let hasArray = false
  /** The paths of arrays whose first value is an object, and of empty arrays. */
  const found = { ofObjects: [] as string[][], empty: [] as string[][] }
  /** The containers around the next token. Only the last can be an array. */
  const open: ('object' | 'array')[] = []
  /** The names of the current members of the open objects. */
  const names: string[] = []

  /** The row, name or skipped value that is being read. */
  let token: 'row' | 'name' | 'skipped' | undefined
  let tokenLine = 1
  let tokenBytes = 0
  let parts: Buffer[] = []
  let depth = 0
  let isInString = false
  let isEscaped = false

  /** The rows that end in this chunk, or before its first fault. */
  function push(chunk: Buffer): readonly JsonRow[] {
    const rows: JsonRow[] = []
    let at = 0
    while (at < chunk.length && fault === undefined) {
      if (token === undefined) readBetween(chunk[at] as number)
      if (token === undefined) at++
      else {
        const end = findEnd(chunk, at)
        keep(chunk.subarray(at, end))
        at = end ?? chunk.length
        const row = end === undefined ? undefined : endToken()
        if (row !== undefined) rows.push(row)
      }
    }
    return rows
  }

  function readBetween(byte: number): void {
    if (byte === LF) line++
    if (isSpace(byte)) return
    const rule: Rule = RULES[next]
    if (byte === rule.close) closeContainer()
    else if (byte === rule.mark && rule.andThen !== undefined) next = rule.andThen
    else if (rule.takes === 'name' && byte === QUOTE) beginToken('name')
    else if (rule.takes === 'value' && FIRST_BYTES.includes(byte)) beginValue(byte)
    else fault = `line ${line} has something else where ${rule.says} should be`
  }

  function closeContainer(): void {
    if (next === 'firstValue' && found.empty.length < MAX_FOUND) found.empty.push([...names])
    open.pop()
    names.length = open.length
    endValue()
  }

  function endValue(): void {
    if (open.length === 0) topValues++
    const atTop = typeof rowsAt === 'string' ? 'value' : 'end'
    const last = open.at(-1)
    next = last === undefined ? atTop : last === 'array' ? 'afterValue' : 'afterMember'
  }

  function beginValue(byte: number): void {
    const isInArray = open.at(-1) === 'array'
    if (
      isInArray &&
      next === 'firstValue' &&
      byte === OPEN_OBJECT &&
      found.ofObjects.length < MAX_FOUND
    )
      found.ofObjects.push([...names])
    if (!isInArray && byte === OPEN_OBJECT && mayHold('object')) {
      open.push('object')
      next = 'firstName'
    } else if (!isInArray && byte === OPEN_ARRAY && mayHold('array')) {
      open.push('array')
      next = 'firstValue'
      hasArray = true
    } else
      beginToken((isInArray && rowsAt !== 'none') || rowsAt === 'top level' ? 'row' : 'skipped')
  }

  /** Whether the next value, if it is such a container, may be the array of the rows, or have it inside. */
  function mayHold(kind: 'object' | 'array'): boolean {
    if (rowsAt === 'none') return open.length < MAX_DEPTH
    if (rowsAt === 'top level' || !names.every((name, index) => name === rowsAt[index]))
      return false
    return kind === 'array' ? open.length === rowsAt.length : open.length < rowsAt.length
  }

  function beginToken(kind: 'row' | 'name' | 'skipped'): void {
    token = kind
    tokenLine = line
    tokenBytes = 0
    parts = []
    depth = 0
    isInString = false
    isEscaped = false
  }

  /** Where the token ends in this chunk. */
  function findEnd(chunk: Buffer, start: number): number | undefined {
    for (let at = start; at < chunk.length; at++) {
      const byte = chunk[at]
      if (isInString) {
        if (isEscaped) isEscaped = false
        else if (byte === BACKSLASH) isEscaped = true
        else if (byte === QUOTE) {
          isInString = false
          if (depth === 0) return at + 1
        }
      } else if (byte === QUOTE) isInString = true
      else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++
      else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
        if (depth === 0) return at
        depth--
        if (depth === 0) return at + 1
      } else if (depth === 0 && (byte === COMMA || isSpace(byte))) return at
      else if (byte === LF) line++
    }
    return undefined
  }

  /** Drops the rest of a row that is too long, so that it does not fill the memory. */
  function keep(part: Buffer): void {
    if (token !== 'skipped' && tokenBytes <= MAX_ROW_BYTES) parts.push(part)
    tokenBytes += part.length
  }

  function endToken(): JsonRow | undefined {
    const kind = token
    const isTooLong = tokenBytes > MAX_ROW_BYTES
    const bytes = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
    token = undefined
    parts = []
    if (kind !== 'name') endValue()
    else if (isTooLong) fault = `line ${line} has a name that is too long`
    else {
      names[open.length - 1] = nameOf(bytes)
      next = 'colon'
    }
    return kind === 'row' ? { line: tokenLine, bytes: isTooLong ? undefined : bytes } : undefined
  }

  /** The last row, if nothing else follows it. */
  function end(): readonly JsonRow[] {
    // Only a number or a word ends with the file.
    const row = token === undefined || depth > 0 || isInString ? undefined : endToken()
    if (token !== undefined) fault ??= `what begins at line ${tokenLine} does not end`
    else if (open.length > 0 || topValues === 0)
      fault ??= `it ends at line ${line} where ${RULES[next].says} should be`
    return row === undefined ? [] : [row]
  }

  return {
    push,
    end,
    /** Why nothing more can be read. Never quotes the file, which may hold passwords. */
    fault: () => fault,
    found,
    /** Whether there was an array that was looked for. */
    hasArray: () => hasArray,
    /** How many values of the top level have begun. */
    topValues: () => topValues + (open.length === 0 && token === undefined ? 0 : 1),
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === LF || byte === CR || byte === TAB
}

/** The text of a name. One that is not JSON stays as it is, and matches no name that is looked for. */
function nameOf(quoted: Buffer): string {
  try {
    return JSON.parse(quoted.toString())
  } catch {
    return quoted.toString()
  }
}
