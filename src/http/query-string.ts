/** One `name=value` of a query, decoded. `value` is undefined if it cannot be decoded. */
export interface QueryParameter {
  readonly name: string
  readonly value: string | undefined
  /** The value before decoding. */
  readonly sent: string
}

/** The query parameters of a URL in their order, in the encoding of forms: a plus is a space. */
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
      return { name: decode(name) ?? name, value: decode(value), sent: value }
    })
}

/** The value of `request.query`: the parameters by name, with a list for a repeated one. */
export function queryObject(query: string): Readonly<Record<string, string | readonly string[]>> {
  const values: Record<string, string | string[]> = Object.create(null)
  for (const { name, value, sent } of queryParameters(`?${query}`)) {
    const text = value ?? sent
    const earlier = values[name]
    values[name] = earlier === undefined ? text : [earlier, text].flat()
  }
  return values
}

/** The query of a URL. `queryParameters` reads it back. */
export function queryString(parameters: readonly { name: string; value: string }[]): string {
  return parameters
    .map(({ name, value }) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join('&')
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}
