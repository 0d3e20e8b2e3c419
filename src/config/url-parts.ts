/** The parts of a URL as they are written; '' for what it leaves out. */
export interface UrlParts {
  readonly user: string
  readonly password: string
  /** At least one. */
  readonly places: readonly { readonly host: string; readonly port: string }[]
  /** Without the slash before it. */
  readonly path: string
  readonly query: string
}

/** As in libpq, # stands for itself, and so does ? in a password. */
const URL_PARTS =
  /^([a-z][a-z\d+.-]+):\/\/(?:([^@/?:]*)(?::([^@/?]*(?:\?[^@/=]*)?))?@)?([^@/?\s]*)(?:\/([^@?\s]*))?(?:\?([^@]*))?$/i

/** A host or an IPv6 address in brackets, and a port. */
const PLACE = /^(?:\[([\da-f:.]+(?:%25\w+)?)\]|([^:[\]]*))(?::(\d{0,5}))?$/i

/** Completes the sentence "NAME was TEXT, but …" about a URL that `splitUrl` does not understand. */
export const MALFORMED =
  'it cannot be taken apart: a blank and each of % @ / ? & in its user or password must be percent-encoded (%40 for @)'

/** Takes a URL apart. There may be several hosts or none, unlike in `new URL()`. `undefined` for what is no such URL. */
export function splitUrl(url: string): UrlParts | undefined {
  const [, scheme, user = '', password = '', authority = '', path = '', query = ''] =
    URL_PARTS.exec(url) ?? []
  const places = authority.split(',').flatMap(place => {
    const [isPlace, address, host = '', port = ''] = PLACE.exec(place) ?? []
    return isPlace === undefined ? [] : [{ host: address ?? host, port }]
  })
  const isUrl = scheme !== undefined && places.length === authority.split(',').length
  return isUrl && isDecodable(url) ? { user, password, places, path, query } : undefined
}

function isDecodable(text: string): boolean {
  try {
    return !decodeURIComponent(text).includes('\0')
  } catch {
    return false
  }
}

/** From the first parameter with the name of a secret, which may be encoded. Its value may have & in it. */
const SECRET = /((?:pass|pwd|secret|token|key|%)[\w%]*\s*=).*/is

/** Where the credentials of a URL begin, or of one whose slashes are missing. */
const SCHEME = /^(?!file:)[a-z][a-z\d+.-]+:(?:\/\/)?/i

/**
 * The value of a setting with its credentials masked, cut after 200 characters. Of a malformed URL only the scheme is shown:
 * nobody can tell where a password in it ends.
 */
export function maskCredentials(text: string): string {
  const [scheme = ''] = SCHEME.exec(text) ?? []
  // A list of origins or of hosts with ports is malformed too.
  const mayHaveLogin = scheme.endsWith('//') && !/^http/i.test(scheme)
  const hasLogin = (scheme !== '' || text.includes('//')) && text.includes('@')
  const isMalformed = (mayHaveLogin || hasLogin) && splitUrl(text) === undefined
  const shown = isMalformed ? `${scheme}***` : text.replace(/\/\/[^@/]*@/, '//***@')
  const masked = shown.replace(SECRET, '$1***')
  return masked.length > 200 ? `${masked.slice(0, 200)}…` : masked
}
