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
 * leaves them out. `undefined` if the text is no such URL.
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
  return { user, password, hosts, ports, path, query }
}

function isDecodable(text: string): boolean {
  try {
    return !decodeURIComponent(text).includes('\0')
  } catch {
    return false
  }
}

/** Text that holds no password: a path or a word, perhaps with a port or the scheme of files, or `:memory:`. */
const PLAIN = /^\s*["'`]?(?:(?:file:|sqlite:|[a-z]:)?[^:@=%\s]*(?::\d{1,5})?|:memory:)["'`]?\s*$/i

/**
 * A text as messages and the log may show it. Of a URL, user and password are masked; of a text with // that is no URL, all but
 * its scheme, because nobody can tell where a password ends in it. So is a text without // that is not plain, if it
 * `mayHoldPassword`. Last, all after the name of a secret and its = is masked, also where they are percent-encoded.
 */
export function maskCredentials(text: string, mayHoldPassword = false): string {
  const [scheme = ''] = /^[a-z][a-z\d+.-]*:(?:\/\/)?/i.exec(text) ?? []
  const hasSlashes = /^(?!file:\/\/\/(?!.*\/\/)).*\/\//is.test(text)
  const isShown = hasSlashes ? isUnderstood(text) : !mayHoldPassword || PLAIN.test(text)
  const shown = isShown ? text.replace(LOGIN, '$1***@') : `${scheme}***`
  for (const { 0: sign, index } of shown.matchAll(/=|%3d/gi)) {
    const before = shown.slice(Math.max(0, index - 100), index)
    const decoded = before.replaceAll(/%[2-7][\da-f]/gi, decodeURIComponent)
    if (SECRET_NAME.test(decoded)) return `${shown.slice(0, index + sign.length)}***`
  }
  return shown
}

const LOGIN = /^([^/]*\/\/)[^@/]*@/

const SECRET_NAME = /(?:pass(?!file)|pwd|secret|token|key)\w*\s*$/i

/** Whether it is known where a text with // has a password: a URL with an @ in no other part, a list of places, or a path. */
function isUnderstood(text: string): boolean {
  if (splitUrl(text) !== undefined) return !/^[^/]*\/\/[^/?]*%40/i.test(text.replace(LOGIN, '$1'))
  const isPlace = (entry: string) => URL.canParse(entry.replace(/^(?!.*\/\/)/, 'x://'))
  return !/[@%]/.test(text) && (!text.includes(':') || text.split(',').every(isPlace))
}
