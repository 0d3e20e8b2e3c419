/** The regular expression literals of a TypeScript source, as written there. */
export function regexLiterals(source: string): string[] {
  const found: string[] = []
  let at = /^#!.*/.exec(source)?.[0].length ?? 0
  /** The last token before `at` that is not a comment. */
  let before = ''

  function skipQuoted(quote: string): void {
    for (at++; at < source.length && source[at] !== quote; at++) {
      if (source[at] === '\\') at++
    }
    at++
  }

  function skipTemplate(): void {
    for (at++; at < source.length && source[at] !== '`'; ) {
      if (source.startsWith('${', at)) {
        at += 2
        readUntil('}')
      } else at += source[at] === '\\' ? 2 : 1
    }
    at++
  }

  function readLiteral(): void {
    const start = at
    let isInClass = false
    for (at++; at < source.length && (isInClass || source[at] !== '/'); at++) {
      if (source[at] === '\\') at++
      else if (source[at] === '[') isInClass = true
      else if (source[at] === ']') isInClass = false
    }
    at++
    while (/[a-z]/.test(source[at] ?? '')) at++
    found.push(source.slice(start, at))
  }

  function readUntil(end: string | undefined): void {
    while (at < source.length && source[at] !== end) {
      const char = source[at] as string
      const word = /^[\w$]+/.exec(source.slice(at, at + 100))?.[0]
      if (source.startsWith('//', at)) at += /.*/.exec(source.slice(at))?.[0].length ?? 1
      else if (source.startsWith('/*', at)) at = source.indexOf('*/', at) + 2
      else if (/\s/.test(char)) at++
      else {
        if (word !== undefined) at += word.length
        else if (char === "'" || char === '"') skipQuoted(char)
        else if (char === '`') skipTemplate()
        else if (char === '/' && !isOperand(before)) readLiteral()
        else if (char === '{') {
          at++
          readUntil('}')
          at++
        } else at++
        before = word ?? char
      }
    }
  }

  readUntil(undefined)
  return found
}

/** Whether a slash after it is a division. */
function isOperand(before: string): boolean {
  return /^(?:[\w$]+|[)\]'"`])$/.test(before) && !['return', 'typeof', 'case'].includes(before)
}
