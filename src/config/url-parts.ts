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

/**
 * The value of a setting with its credentials masked, cut after 200 characters. Of a malformed URL only the scheme is shown:
 * nobody can tell where a password in it ends.
 */
export function maskCredentials(text: string): string {
  const [scheme = ''] = /^(?!file:)[a-z][a-z\d+.-]+:(?:\/\/)?/i.exec(text) ?? []
  const loginAt = scheme === '' ? text.indexOf('//') + 2 : scheme.length
  const isUrl = loginAt > 1 && !/^file:/i.test(text)
  const rest = text.slice(loginAt)
  // A list of origins is malformed too, but has no password without any @.
  const mayHaveLogin =
    (isUrl && (rest.includes('@') || looksLikeLogin(rest))) || /^(?!http).*\/\/$/i.test(scheme)
  const isMalformed = mayHaveLogin && splitUrl(text) === undefined
  const shown = isMalformed ? `${scheme}***` : text.replace(/^([^@/]*\/\/)[^/]*@/, '$1***@')
  const masked = maskSecret(shown)
  return masked.length > 200 ? `${masked.slice(0, 200)}…` : masked
}

/** Whether `user:password` is where the hosts should be, because the @ after it is missing or encoded. */
function looksLikeLogin(text: string): boolean {
  const [authority = ''] = text.split(/[/?#]/, 1)
  return authority.split(',').some(host => {
    const port = host.slice(host.lastIndexOf(']') + 1).split(':')[1] ?? ''
    return !/^\d*$/.test(port) || Number(port) > 65_535
  })
}

/** Masks everything after the first name of a secret and its =. The name may be encoded, and the value may contain &. */
function maskSecret(text: string): string {
  for (const { 0: found, 1: name = '', index } of text.matchAll(/(?<![\w%])([\w%]+)\s*=/g)) {
    if (/pass|pwd|secret|token|key|%/i.test(name))
      return `${text.slice(0, index + found.length)}***`
  }
  return text
}
