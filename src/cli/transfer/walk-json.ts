import { visit } from 'jsonc-parser'

/** An array or object within a JSON text. */
export interface Container {
  /** The names and indexes that lead to it. */
  readonly path: readonly string[]
  readonly isArray: boolean
  /** How many values it has; how many are no containers, how many objects, and how many objects with a value that is no container. */
  size: number
  scalars: number
  objects: number
  records: number
}

export interface Walked {
  /** Those of some levels in their order, and at most some of them. The first is around all others. */
  readonly containers: readonly Container[]
  /**
   * Start, end and line of each value that was looked for, one after the other: numbers without objects around them take a
   * tenth of the memory.
   */
  readonly places: readonly number[]
  /** Where other text follows the value. */
  readonly rest: Place | undefined
}

interface Place {
  readonly offset: number
  /** From 0. */
  readonly line: number
}

/** Where a text stops to be JSON. Its message never quotes the text, which may hold passwords. */
export class JsonMistake extends Error {}

const MAX_LEVELS = 6
const MAX_CONTAINERS = 500

/** The code of jsonc-parser for other text after a value. */
const END_EXPECTED = 9

/**
 * Walks the value that begins at a place of a text, and notes the values of the container at a path, or the whole value itself.
 * Throws `JsonMistake`.
 */
export function walkJson(
  text: string,
  at: readonly string[] | 'whole',
  from: Place = { offset: 0, line: 0 },
): Walked {
  const containers: Container[] = []
  const places: number[] = []
  /** Those around the next value, and which of them has the values to note. */
  const levels: Container[] = []
  let wanted: Container | undefined
  let name = ''
  let rest: Place | undefined
  /** Of the value that is noted when it ends. */
  let start = 0
  let startLine = 0

  const isNoted = () =>
    at === 'whole' ? levels.length === 0 : wanted !== undefined && levels.at(-1) === wanted

  function note(begin: number, end: number, line: number): void {
    places.push(from.offset + begin, from.offset + end, from.line + line + 1)
  }

  function open(isArray: boolean, offset: number, line: number): void {
    if (isNoted()) [start, startLine] = [offset, line]
    const outer = levels.at(-1)
    const isShallow = levels.length < MAX_LEVELS && containers.length < MAX_CONTAINERS
    const path = isShallow && outer ? [...outer.path, outer.isArray ? `${outer.size}` : name] : []
    const opened = { path, isArray, size: 0, scalars: 0, objects: 0, records: 0 }
    if (isShallow) containers.push(opened)
    if (isShallow && at !== 'whole' && path.join('.') === at.join('.')) wanted ??= opened
    levels.push(opened)
  }

  function close(end: number): void {
    const closed = levels.pop()
    if (isNoted()) note(start, end, startLine)
    const outer = levels.at(-1)
    if (outer === undefined || closed === undefined) return
    outer.size++
    if (closed.isArray) return
    outer.objects++
    if (closed.scalars > 0) outer.records++
  }

  try {
    visit(
      text.slice(from.offset),
      {
        onObjectBegin: (offset, _length, line) => open(false, offset, line),
        onArrayBegin: (offset, _length, line) => open(true, offset, line),
        onObjectProperty: own => {
          name = own
        },
        onObjectEnd: (offset, length) => close(offset + length),
        onArrayEnd: (offset, length) => close(offset + length),
        onLiteralValue: (_value, offset, length, line) => {
          if (isNoted()) note(offset, offset + length, line)
          const outer = levels.at(-1)
          if (outer === undefined) return
          outer.size++
          outer.scalars++
        },
        onError: (code, offset, _length, line, character) => {
          const place = { offset: from.offset + offset, line: from.line + line }
          if (Number(code) === END_EXPECTED) rest = place
          else
            throw new JsonMistake(
              `${place.offset < text.length ? 'there is a mistake' : 'it ends too early'} at line ${place.line + 1}, character ${character + 1}`,
            )
        },
      },
      { disallowComments: true },
    )
  } catch (error) {
    if ((error as Error).name !== 'RangeError') throw error
    throw new JsonMistake('its arrays and objects are nested too deep')
  }
  return { containers, places, rest }
}
