/** A media type or range: RFC 9110 8.3.1 and 12.5.1. Names are in lower case. */
export interface MediaType {
  readonly type: string
  readonly subtype: string
  /** In the order of the header. Values are as sent, with or without quotes. */
  readonly parameters: readonly { readonly name: string; readonly value: string }[]
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

const VALUE = `${TOKEN}|"(?:[^"\\\\]|\\\\.)*"`

// Each blank matches in one way only, so that no header causes backtracking.
const MEMBER = new RegExp(
  `[ \\t]*(?:(${TOKEN})/(${TOKEN})[ \\t]*((?:;[ \\t]*(?:${TOKEN}=(?:${VALUE})[ \\t]*)?)*))?(?:,|$)`,
  'y',
)

const PARAMETER = new RegExp(`;[ \\t]*(${TOKEN})=(${VALUE})`, 'g')

/** The members of a comma list of media types, without empty ones; `undefined` if the list is malformed. */
export function parseMediaTypes(header: string): readonly MediaType[] | undefined {
  const types: MediaType[] = []
  MEMBER.lastIndex = 0
  while (MEMBER.lastIndex < header.length) {
    const member = MEMBER.exec(header)
    if (member === null) return undefined
    const [, type, subtype, parameters = ''] = member
    if (type === undefined || subtype === undefined) continue
    types.push({
      type: type.toLowerCase(),
      subtype: subtype.toLowerCase(),
      parameters: parseParameters(parameters),
    })
  }
  return types
}

function parseParameters(text: string): MediaType['parameters'] {
  return Array.from(text.matchAll(PARAMETER), ([, name = '', value = '']) => ({
    name: name.toLowerCase(),
    value,
  }))
}
