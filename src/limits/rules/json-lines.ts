/** A position in a text; both count from 1. */
export interface TextPlace {
  readonly line: number
  readonly column: number
}

/** The path to a part of a JSON text, as in `['bans', 0, 'findtime']`. */
export type JsonPath = readonly (string | number)[]

/** The positions of the parts of a JSON text. */
export interface LocatedJson {
  readonly lineOf: LineOf
  /** Members whose name occurs twice in their object: `JSON.parse` keeps only the last. */
  readonly repeated: readonly JsonPath[]
}

/** The line of a part of a JSON text. For a missing part, the line of the nearest part around it. */
export type LineOf = (path: JsonPath) => number

const BLANKS = ' \t\n\r'

const LITERAL = /[-+.\w]+/y

/**
 * Finds the positions of the parts of a JSON text, which `JSON.parse` does not report. The position of a member is that of
 * its name. If the text is not valid JSON, returns the position of the first mistake instead.
 */
export function locateJson(text: string): LocatedJson | { readonly wrongAt: TextPlace } {
  /** The offset of each part, by its path as JSON. */
  const starts = new Map<string, number>()
  const repeated: JsonPath[] = []
  let at = 0

  function skipBlanks(): void {
    while (at < text.length && BLANKS.includes(text.charAt(at))) at++
  }

  function take(char: string): boolean {
    skipBlanks()
    if (text[at] !== char) return false
    at++
    return true
  }

  function need(char: string): void {
    if (!take(char)) throw new Misplaced()
  }

  /** Reads a text in quotes, which `JSON.parse` checks. */
  function readText(): string {
    skipBlanks()
    const start = at
    need('"')
    while (at < text.length && text[at] !== '"' && text[at] !== '\n')
      at += text[at] === '\\' ? 2 : 1
    at = Math.min(at + 1, text.length)
    return parseAt(start) as string
  }

  function parseAt(start: number): unknown {
    try {
      return JSON.parse(text.slice(start, at))
    } catch {
      at = start
      throw new Misplaced()
    }
  }

  function readValue(path: JsonPath): void {
    skipBlanks()
    if (text[at] === '{') readMembers(path)
    else if (text[at] === '[') readItems(path)
    else if (text[at] === '"') readText()
    else {
      const start = at
      LITERAL.lastIndex = at
      at += LITERAL.exec(text)?.[0].length ?? 0
      parseAt(start)
    }
  }

  function readMembers(path: JsonPath): void {
    need('{')
    if (take('}')) return
    do {
      skipBlanks()
      const start = at
      const member = [...path, readText()]
      if (starts.has(JSON.stringify(member))) repeated.push(member)
      starts.set(JSON.stringify(member), start)
      need(':')
      readValue(member)
    } while (take(','))
    need('}')
  }

  function readItems(path: JsonPath): void {
    need('[')
    if (take(']')) return
    let index = 0
    do {
      skipBlanks()
      const item = [...path, index++]
      starts.set(JSON.stringify(item), at)
      readValue(item)
    } while (take(','))
    need(']')
  }

  try {
    readValue([])
    skipBlanks()
    if (at < text.length) throw new Misplaced()
  } catch (error) {
    if (!(error instanceof Misplaced)) throw error
    return { wrongAt: placeAt(text, at) }
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

/** The text at the current position is not valid JSON. */
class Misplaced extends Error {}

function placeAt(text: string, offset: number): TextPlace {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 }
}
