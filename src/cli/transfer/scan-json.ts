/** An array or object within a text of JSON. */
export interface Container {
  /** The names and indexes that lead to it, with dots. That of a value which is not within another is empty. */
  readonly path: string
  /** How many containers are around it. */
  readonly depth: number
  readonly isArray: boolean
  /** How many values it has, and how many of them are no containers. */
  size: number
  scalars: number
  /** How many may be rows: objects, of an object only those with a value that is no container. */
  rows: number
}

export interface Scanned {
  /** How many values there are one after the other. */
  readonly size: number
  /** Those of some levels in their order, and at most some of them. The first is around all others. */
  readonly containers: readonly Container[]
  /**
   * Start, end and line of each value that was looked for, one after the other: numbers without objects around them take a
   * tenth of the memory.
   */
  readonly places: readonly number[]
}

/** Where a text stops to be JSON. Its message never quotes the text, which may hold passwords. */
export class JsonMistake extends Error {}

const MAX_DEPTH = 6
const MAX_CONTAINERS = 500

// As https://www.rfc-editor.org/rfc/rfc8259 has them.
const SPACE = /[ \t\n\r]*/y
const STRING = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[ !#-[\]-\uffff]*)*"/y
const SCALAR = new RegExp(
  `true|false|null|-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?|${STRING.source}`,
  'y',
)

/**
 * Scans values one after the other, and notes the places of those in the container at a path, or of the values themselves. Throws
 * `JsonMistake`.
 */
export function scanJson(text: string, wantedPath: string | undefined): Scanned {
  const top = containerOf({ path: '', depth: -1, isArray: true })
  const containers: Container[] = []
  const places: number[] = []
  let wanted = wantedPath === undefined ? top : undefined
  let at = 0
  let line = 1
  let lineEnd = text.indexOf('\n')

  function isNext(expression: RegExp): boolean {
    expression.lastIndex = at
    const isThere = expression.test(text)
    if (isThere) at = expression.lastIndex
    return isThere
  }

  function lineOf(offset: number): number {
    for (; lineEnd >= 0 && lineEnd < offset; line++) lineEnd = text.indexOf('\n', lineEnd + 1)
    return line
  }

  function mistake(): JsonMistake {
    const what = at < text.length ? 'there is a mistake' : 'it ends too early'
    return new JsonMistake(
      `${what} at line ${lineOf(at)}, character ${at - text.lastIndexOf('\n', at - 1)}`,
    )
  }

  /** Reads a value after white space, and the white space after it. `name` is that of the value, as the text has it. */
  function readValue(outer: Container, name: string): void {
    isNext(SPACE)
    const start = at
    if (isNext(SCALAR)) outer.scalars++
    else readContainer(outer, name)
    if (outer === wanted) places.push(start, at, lineOf(start))
    outer.size++
    isNext(SPACE)
  }

  function readContainer(outer: Container, name: string): void {
    const isArray = text[at] === '['
    if (!isArray && text[at] !== '{') throw mistake()
    const depth = outer.depth + 1
    const isNoted = depth < MAX_DEPTH && containers.length < MAX_CONTAINERS
    const before = depth > 1 ? `${outer.path}.` : ''
    const path = isNoted && depth > 0 ? `${before}${JSON.parse(name)}` : ''
    const container = containerOf({ path, depth, isArray })
    if (isNoted) containers.push(container)
    if (isNoted && path === wantedPath) wanted ??= container
    at++
    isNext(SPACE)
    while (text[at] !== (isArray ? ']' : '}')) {
      if (container.size > 0) expect(',')
      readValue(container, isArray ? `${container.size}` : readName())
    }
    at++
    if (!isArray && (outer.isArray || container.scalars > 0)) outer.rows++
  }

  function expect(unit: string): void {
    if (text[at] !== unit) throw mistake()
    at++
    isNext(SPACE)
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
    do readValue(top, '')
    while (at < text.length)
  } catch (error) {
    if ((error as Error).name !== 'RangeError') throw error
    throw new JsonMistake('its arrays and objects are nested too deep')
  }
  return { size: top.size, containers, places }
}

function containerOf(place: Pick<Container, 'path' | 'depth' | 'isArray'>): Container {
  return { ...place, size: 0, scalars: 0, rows: 0 }
}
