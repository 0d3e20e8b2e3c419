/** An array or object within a text of JSON, or the values that a text has one after the other. */
export interface Container {
  /** The names and indexes that lead to it, with dots; empty for a value that is not within another. */
  readonly path: string
  /** How many containers are around it. */
  readonly depth: number
  readonly isArray: boolean
  /**
   * Start, end and line of each value, one after the other: numbers without objects around them take a tenth of the memory.
   * Noted for some containers of some levels.
   */
  readonly places: number[]
  /** How many of its values may be rows: objects, within an object only those with a value that is no container. */
  rows: number
  hasScalars: boolean
}

/** Where a text stops to be JSON. Its message never quotes the text, which may hold passwords. */
export class JsonMistake extends Error {}

const MAX_DEPTH = 6
const MAX_CONTAINERS = 500

// As https://www.rfc-editor.org/rfc/rfc8259 has them.
const SPACE = /[ \t\n\r]*/y
const STRING = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[ !#-[\]-\uffff]*)*"/y
const OTHERS = 'true|false|null|-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?'
const SCALAR = new RegExp(`${STRING.source}|${OTHERS}`, 'y')

/** Scans the values of a text. Returns these, and the containers in them whose places are noted. Throws `JsonMistake`. */
export function scanJson(text: string): readonly [values: Container, ...Container[]] {
  const values = createContainer('', -1, true)
  const noted: [Container, ...Container[]] = [values]
  let at = 0
  let line = 1
  let lineEnd = text.indexOf('\n')

  function isNext(expression: RegExp): boolean {
    expression.lastIndex = at
    const isThere = expression.test(text)
    if (isThere) at = expression.lastIndex
    return isThere
  }

  function expect(unit: string): void {
    if (text[at] !== unit) throw mistake()
    at++
    isNext(SPACE)
  }

  function mistake(): JsonMistake {
    const what = at < text.length ? 'there is a mistake' : 'it ends too early'
    const character = at - text.lastIndexOf('\n', at - 1)
    return new JsonMistake(`${what} at line ${lineHere()}, character ${character}`)
  }

  function lineHere(): number {
    for (; lineEnd >= 0 && lineEnd < at; line++) lineEnd = text.indexOf('\n', lineEnd + 1)
    return line
  }

  /** Reads a value and the white space after it. `name` is that of the value, as the text has it. */
  function readValue(outer: Container, isNoted: boolean, name: string): void {
    const place = isNoted ? outer.places.push(at, at, lineHere()) - 2 : 0
    if (isNext(SCALAR)) outer.hasScalars = true
    else readContainer(outer, isNoted, name)
    if (isNoted) outer.places[place] = at
    isNext(SPACE)
  }

  function readContainer(outer: Container, isOuterNoted: boolean, name: string): void {
    const isArray = text[at] === '['
    if (!isArray && text[at] !== '{') throw mistake()
    const depth = outer.depth + 1
    const isNoted = isOuterNoted && depth < MAX_DEPTH && noted.length <= MAX_CONTAINERS
    const before = depth > 1 ? `${outer.path}.` : ''
    const path = isNoted && depth > 0 ? `${before}${JSON.parse(name)}` : ''
    const container = createContainer(path, depth, isArray)
    if (isNoted) noted.push(container)
    at++
    isNext(SPACE)
    for (let index = 0; text[at] !== (isArray ? ']' : '}'); index++) {
      if (index > 0) expect(',')
      readValue(container, isNoted, isArray ? `${index}` : readName())
    }
    at++
    if (!isArray && (outer.isArray || container.hasScalars)) outer.rows++
  }

  function readName(): string {
    const start = at
    if (!isNext(STRING)) throw mistake()
    const name = text.slice(start, at)
    isNext(SPACE)
    expect(':')
    return name
  }

  try {
    isNext(SPACE)
    do readValue(values, true, '')
    while (at < text.length)
  } catch (error) {
    if ((error as Error).name !== 'RangeError') throw error
    throw new JsonMistake('its arrays and objects are nested too deep')
  }
  return noted
}

function createContainer(path: string, depth: number, isArray: boolean): Container {
  return { path, depth, isArray, places: [], rows: 0, hasScalars: false }
}
