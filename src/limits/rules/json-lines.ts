/** A position in a text; both count from 1. */
export interface TextPlace {
  readonly line: number
  readonly column: number
}

/** The path to a part of a JSON text, as in `['bans', 0, 'findtime']`. */
export type JsonPath = readonly (string | number)[]

/** The line of a part of a JSON text. For a missing part, the line of the nearest part around it. */
export type LineOf = (path: JsonPath) => number

/** The positions of the parts of a JSON text. */
export interface LocatedJson {
  readonly lineOf: LineOf
  /** Members whose name occurs twice in their object: `JSON.parse` keeps only the last. */
  readonly repeated: readonly JsonPath[]
}

/** Parts further inside have no positions of their own: rules are less deep, but a text may be as deep as it is long. */
const MAX_DEPTH = 10

const BLANKS = /[ \t\n\r]+/y

/** A text in quotes, a number or a word. `JSON.parse` checks it. */
const SCALAR = /"(?:[^"\\\n]|\\.)*"?|[-+.\w]+/y

/** `first`: a member, an item or the end of what has just begun. `more`: what may follow a value. */
type Expected = 'value' | 'first' | 'name' | 'colon' | 'more'

/**
 * Finds the positions of the parts of a JSON text, which `JSON.parse` does not report. The position of a member is that of
 * its name. If the text is not valid JSON, returns the position of the first mistake instead.
 */
export function locateJson(text: string): LocatedJson | { readonly wrongAt: TextPlace } {
  /** The offset of each part, by its path as JSON. */
  const starts = new Map<string, number>()
  const repeated: JsonPath[] = []
  const path: (string | number)[] = []
  /** What closes the objects and lists that are open. */
  const ends: string[] = []
  let at = 0
  let next = 'value' as Expected

  function read(token: RegExp): string {
    token.lastIndex = at
    return token.exec(text)?.[0] ?? ''
  }

  /** Steps to a part of the innermost object or list, which begins here. */
  function begin(part: string | number): void {
    path[path.length - 1] = part
    if (path.length > MAX_DEPTH) return
    const id = JSON.stringify(path)
    if (starts.has(id)) repeated.push([...path])
    starts.set(id, at)
  }

  /** Steps over what is expected here. False for anything else. */
  function step(): boolean {
    const char = text.charAt(at)
    const end = ends.at(-1)
    if (char === end && (next === 'first' || next === 'more')) {
      ends.pop()
      path.pop()
      next = 'more'
    } else if (next === 'more') {
      if (char !== ',' || end === undefined) return false
      next = end === '}' ? 'name' : 'value'
    } else if (next === 'colon') {
      if (char !== ':') return false
      next = 'value'
    } else {
      const isName = end === '}' && next !== 'value'
      if (end === ']') begin((path.at(-1) as number) + 1)
      if (!isName && (char === '{' || char === '[')) {
        ends.push(char === '{' ? '}' : ']')
        path.push(-1)
        next = 'first'
      } else {
        const token = read(SCALAR)
        const value = parseScalar(token)
        if (value === undefined || (isName && typeof value !== 'string')) return false
        if (isName) begin(value as string)
        next = isName ? 'colon' : 'more'
        at += token.length - 1
      }
    }
    at++
    return true
  }

  for (;;) {
    at += read(BLANKS).length
    if (next === 'more' && ends.length === 0 && at === text.length) break
    if (!step()) return { wrongAt: placeAt(text, at) }
  }
  return {
    repeated,
    lineOf: path => {
      let known = path
      while (known.length > 0 && !starts.has(JSON.stringify(known))) known = known.slice(0, -1)
      return placeAt(text, starts.get(JSON.stringify(known)) ?? 0).line
    },
  }
}

/** `undefined` for what is no JSON. */
function parseScalar(token: string): unknown {
  try {
    return JSON.parse(token)
  } catch {
    return undefined
  }
}

function placeAt(text: string, offset: number): TextPlace {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 }
}
