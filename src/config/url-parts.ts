import { isIPv6 } from 'node:net'

/** As in libpq, # stands for itself, and so does ? in a password. */
const URL_PARTS =
  /^[a-z][a-z\d+.-]+:\/\/(?:([^@/?:]*)(?::([^@/?]*(?:\?[^@/=]*)?))?@)?([^@/?\s]*)(?:\/([^@?\s]*))?(?:\?([^@]*))?$/i

/** A host or an IPv6 address in brackets, and a port. */
const PLACE = /^(?:\[([\da-f:.]+(?:%25\w+)?)\]|([^:[\]]*))(?::(\d{0,5}))?$/i

/** Completes the sentence "NAME was TEXT, but …" about a URL that `splitUrl` does not understand. */
export const MALFORMED =
  'it cannot be taken apart: a blank and each of % @ / ? & in its user or password must be percent-encoded (%40 for @)'

/**
 * The parts of a URL, which may have several hosts or none, unlike in `new URL()`. They are as written, and '' if the URL
 * leaves them out. `masked` is the URL up to its query, without user and password. `undefined` if the text is no such URL.
 */
export function splitUrl(url: string) {
  const parts = URL_PARTS.exec(url)
  const places = parts?.[3]?.split(',').map(place => PLACE.exec(place)) ?? [null]
  const addresses = places.flatMap(place => place?.[1]?.replace(/%.*/, '') ?? [])
  if (!parts || places.includes(null) || !addresses.every(isIPv6)) return undefined
  if (!isDecodable(url)) return undefined
  const [, user = '', password = '', , path = '', query = ''] = parts
  const hosts = places.map(place => place?.[1] ?? place?.[2] ?? '')
  const ports = places.map(place => place?.[3] ?? '')
  // No other part has an @.
  const masked = url.slice(0, url.length - query.length).replace(/^([^/]*\/\/)[^@]*@/, '$1***@')
  return { user, password, hosts, ports, path, query, masked }
}

function isDecodable(text: string): boolean {
  try {
    return !decodeURIComponent(text).includes('\0')
  } catch {
    return false
  }
}

/**
 * The text of a setting as a message may show it. Where there may be a password in it, only its scheme is left: nobody can tell
 * where a password ends in what was not understood.
 */
export function maskCredentials(text: string): string {
  const [scheme = ''] = /^[a-z][a-z\d+.-]*:(?:\/\/)?/i.exec(text) ?? []
  const isPlace = (entry: string) => URL.canParse(entry.replace(/^(?!.*\/\/)/, 'x://'))
  const isHarmless = !text.includes('//') || text.split(',').every(isPlace)
  return isHarmless && !/[@=%]/.test(text) ? text : `${scheme}***`
}
