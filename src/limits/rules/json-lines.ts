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

/** A text in quotes, a bracket, a comma, or another value. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"?|[{}[\],]|[^\s{}[\],:"]+/g

/**
 * Finds the positions of the parts of a text that `JSON.parse` accepts. The position of a member is that of its name.
 */
export function locateJson(text: string): LocatedJson {
  /** The offset of each part, by its path as JSON. */
  const starts = new Map<string, number>()
  const repeated: JsonPath[] = []
  /** The part in each object or list that is open; before the first one, '' or -1. */
  const path: (string | number)[] = []

  function begin(part: string | number, offset: number): void {
    path[path.length - 1] = part
    if (path.length > MAX_DEPTH) return
    const id = JSON.stringify(path)
    if (starts.has(id)) repeated.push([...path])
    starts.set(id, offset)
  }

  let previous = ''
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (token === '}' || token === ']') path.pop()
    else if (token !== ',') {
      const open = path.at(-1)
      // Otherwise it is the value of a member, which begins with its name.
      if (open !== undefined && ['{', '[', ','].includes(previous)) {
        begin(typeof open === 'number' ? open + 1 : JSON.parse(token), index)
      }
      if (token === '{') path.push('')
      if (token === '[') path.push(-1)
    }
    previous = token
  }
  return {
    repeated,
    lineOf: path => {
      let known = path
      while (known.length > 0 && !starts.has(JSON.stringify(known))) known = known.slice(0, -1)
      return lineAt(text, starts.get(JSON.stringify(known)) ?? 0)
    },
  }
}

/**
 * The offset of the first part that no JSON can have: a comma before an end or another comma, or a value that is none. A missing
 * comma or colon is not found.
 */
export function findFault(text: string): number | undefined {
  let previous = ''
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    const follows = '}],'.includes(token) ? previous === ',' : !'{['.includes(token)
    if (follows && ('}],'.includes(token) || !isJson(token))) return index
    previous = token
  }
  return undefined
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The line of an offset; both begin a text, at 1 and 0. */
export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}
