import { visit } from 'jsonc-parser'

/** The path to a part of a JSON text, as in `['bans', 0, 'findtime']`. */
export type JsonPath = readonly (string | number)[]

export type LocatedJson = ReturnType<typeof locateJson>

/** The lines of the parts of a JSON text. The line of a member is that of its name. */
export function locateJson(text: string) {
  const lines = new Map<string, number>()
  const repeated: JsonPath[] = []
  let faultLine: number | undefined

  function noteItem(line: number, path: JsonPath): void {
    if (typeof path.at(-1) === 'number') lines.set(JSON.stringify(path), line + 1)
  }

  try {
    visit(
      text,
      {
        onObjectProperty: (name, _offset, _length, line, _character, pathOf) => {
          const path = [...pathOf(), name]
          if (lines.has(JSON.stringify(path))) repeated.push(path)
          lines.set(JSON.stringify(path), line + 1)
        },
        onObjectBegin: (_offset, _length, line, _character, pathOf) => noteItem(line, pathOf()),
        onArrayBegin: (_offset, _length, line, _character, pathOf) => noteItem(line, pathOf()),
        onLiteralValue: (_value, _offset, _length, line, _character, pathOf) =>
          noteItem(line, pathOf()),
        onError: (_code, offset, _length, line) => {
          if (offset < text.length) faultLine ??= line + 1
        },
      },
      { disallowComments: true },
    )
  } catch (error) {
    // A text may be nested deeper than the stack. No rule is, and what is around its depth is known.
    if ((error as Error).name !== 'RangeError') throw error
  }
  return {
    /** Members whose name occurs twice in their object: `JSON.parse` keeps only the last. */
    repeated,
    /** The line of the first syntax error; `undefined` if the text only ends too early. */
    faultLine,
    /** The line of a part. For a missing part, the line of the nearest part around it. */
    lineOf: (path: JsonPath): number => {
      let known = path
      while (known.length > 0 && !lines.has(JSON.stringify(known))) known = known.slice(0, -1)
      return lines.get(JSON.stringify(known)) ?? 1
    },
  }
}
