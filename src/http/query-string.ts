/** One `name=value` of a query, decoded; without a value where it cannot be decoded. */
export interface QueryParameter {
  readonly name: string
  readonly value: string | undefined
  /** The value before decoding. */
  readonly sent: string
}

/** The parameters of a URL in their order, as forms encode them: a plus is a space. */
export function queryParameters(url: string): readonly QueryParameter[] {
  const start = url.indexOf('?')
  if (start < 0) return []
  return url
    .slice(start + 1)
    .split('&')
    .filter(pair => pair !== '')
    .map(pair => {
      const equals = pair.indexOf('=')
      const name = equals < 0 ? pair : pair.slice(0, equals)
      const value = equals < 0 ? '' : pair.slice(equals + 1)
      return { name: decoded(name) ?? name, value: decoded(value), sent: value }
    })
}

/** The query of a URL of our own: what `queryParameters` reads back. */
export function queryString(parameters: readonly { name: string; value: string }[]): string {
  return parameters
    .map(({ name, value }) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join('&')
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}
