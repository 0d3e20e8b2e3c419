import { createScanner, visit } from 'jsonc-parser'
import type { JsonPath } from '../../platform/json-lines.ts'
import type { ColumnOptions } from './column-options.ts'
import { fieldLike, mayBePassword } from './look-alikes.ts'

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

/** Kinds of tokens. `SyntaxKind` of jsonc-parser cannot be imported with `verbatimModuleSyntax`. */
const KIND = {
  ...{ openBrace: 1, closeBrace: 2, openBracket: 3, closeBracket: 4, comma: 5, colon: 6 },
  ...{ null: 7, true: 8, false: 9, string: 10, number: 11, lineBreak: 14, blank: 15, end: 17 },
}

/** Of jsonc-parser's `ParseErrorCode`. */
const COMMA_EXPECTED = 6

const SCALARS: readonly number[] = [KIND.null, KIND.true, KIND.false, KIND.string, KIND.number]

/** Scans the values of a text. Returns these, and the containers in them whose places are noted. Throws `JsonMistake`. */
export function scanJson(text: string): readonly [values: Container, ...Container[]] {
  const values = createContainer('', -1, true)
  const noted: [Container, ...Container[]] = [values]
  const scanner = createScanner(text)
  let token: number = KIND.blank
  /** The end of the token before. */
  let end = 0

  /** Goes to the next token that is no white space. */
  function advance(): void {
    end = scanner.getTokenOffset() + scanner.getTokenLength()
    do token = scanner.scan()
    while (token === KIND.blank || token === KIND.lineBreak)
    if (Number(scanner.getTokenError()) !== 0) throw mistake()
  }

  function expect(kind: number): void {
    if (token !== kind) throw mistake()
    advance()
  }

  function mistake(): JsonMistake {
    const what = token === KIND.end ? 'it ends too early' : 'there is a mistake'
    const character = scanner.getTokenStartCharacter() + 1
    return new JsonMistake(`${what} at line ${lineHere()}, character ${character}`)
  }

  function lineHere(): number {
    return scanner.getTokenStartLine() + 1
  }

  function readValue(outer: Container, isNoted: boolean, name: string): void {
    const start = scanner.getTokenOffset()
    const place = isNoted ? outer.places.push(start, start, lineHere()) - 2 : 0
    if (SCALARS.includes(token)) {
      outer.hasScalars = true
      advance()
    } else readContainer(outer, isNoted, name)
    if (isNoted) outer.places[place] = end
  }

  function readContainer(outer: Container, isOuterNoted: boolean, name: string): void {
    const isArray = token === KIND.openBracket
    if (!isArray && token !== KIND.openBrace) throw mistake()
    const depth = outer.depth + 1
    const isNoted = isOuterNoted && depth < MAX_DEPTH && noted.length <= MAX_CONTAINERS
    const path = isNoted && depth > 0 ? `${depth > 1 ? `${outer.path}.` : ''}${name}` : ''
    const container = createContainer(path, depth, isArray)
    if (isNoted) noted.push(container)
    const closing = isArray ? KIND.closeBracket : KIND.closeBrace
    advance()
    for (let index = 0; token !== closing; index++) {
      if (index > 0) expect(KIND.comma)
      readValue(container, isNoted, isArray ? `${index}` : readName())
    }
    advance()
    if (!isArray && (outer.isArray || container.hasScalars)) outer.rows++
  }

  function readName(): string {
    const name = scanner.getTokenValue()
    expect(KIND.string)
    expect(KIND.colon)
    return name
  }

  try {
    advance()
    do readValue(values, true, '')
    while (token !== KIND.end)
  } catch (error) {
    if ((error as Error).name !== 'RangeError') throw error
    throw new JsonMistake('its arrays and objects are nested too deep')
  }
  return noted
}

function createContainer(path: string, depth: number, isArray: boolean): Container {
  return { path, depth, isArray, places: [], rows: 0, hasScalars: false }
}

/**
 * Of the texts in `rest`, which begins with a wrong byte: a name beside or around that, or else the first that is no password and
 * not behind a mistake.
 */
export function sampleOfJson(
  before: string,
  rest: string,
  taken: ColumnOptions['taken'],
): string | undefined {
  const json = `[${before}${rest}`
  const samples: { readonly path: JsonPath; readonly text: string }[] = []
  let place: JsonPath | undefined
  let isRight = true
  const isPlain = (text: string) => /^[\0-\x7f]*$/.test(text)
  const isName = ({ path }: { readonly path: JsonPath }) =>
    fieldLike(String(path.at(-1))) === 'name' &&
    path.slice(0, -1).every((name, depth) => name === place?.[depth])
  try {
    visit(json, {
      onError: code => {
        // Rows may follow each other without one.
        isRight &&= code === COMMA_EXPECTED
      },
      onLiteralValue: (_value, offset, length, _line, _character, pathOf) => {
        if (!isRight || offset + length <= before.length + 1) return
        const path = pathOf()
        place ??= path
        const column = path.join('.')
        const text = json.slice(offset, offset + length).replaceAll('"', '')
        // A name in another encoding may be that of a password.
        if (!isPlain(text) && isPlain(column) && !mayBePassword(column, taken))
          samples.push({ path, text })
      },
    })
  } catch (error) {
    // The text may be nested deeper than the stack.
    if ((error as Error).name !== 'RangeError') throw error
  }
  return (samples.find(isName) ?? samples[0])?.text
}
