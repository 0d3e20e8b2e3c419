import { isIPv6 } from 'node:net'
import { nearest } from './did-you-mean.ts'
import { POSTGRES_PARAMETERS, type PostgresParameter } from './postgres-location.ts'

/** The texts of what a URL gives, decoded. */
export type PostgresUrl = Readonly<Partial<Record<PostgresParameter, string>>>

/** A URL that cannot be used. The message completes a sentence that begins with its name, and shows no part of a password. */
export class MalformedUrl extends Error {}

export function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\//i.test(text)
}

/**
 * Takes a URL apart as libpq does, which is unlike `new URL()`: there may be several hosts or none, a folder may be a host,
 * and # and + mean themselves. A parameter wins over the same thing before the ?. Throws `MalformedUrl`.
 * https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
 */
export function parsePostgresUrl(url: string): PostgresUrl {
  const { userInfo, hosts, database, query } = splitUrl(url.slice(url.indexOf('//') + 2))
  const [user = '', ...password] = userInfo.split(':')
  const before = {
    user: decode(user),
    password: decode(password.join(':')),
    ...parseHosts(hosts),
    dbname: decode(database),
  }
  const given = Object.entries(before).filter(([, text]) => text !== '')
  return { ...Object.fromEntries(given), ...parseQuery(query) }
}

function splitUrl(rest: string) {
  const at = rest.indexOf('@')
  const slash = rest.indexOf('/')
  const hasUser = at !== -1 && (slash === -1 || at < slash)
  const userInfo = hasUser ? rest.slice(0, at) : ''
  // libpq would take the value of a parameter for the host.
  const [, ...parameters] = userInfo.split('?')
  if (parameters.some(text => text.includes('='))) {
    throw new MalformedUrl(
      'a ? in its password must be written as %3F, and an @ in a parameter as %40',
    )
  }
  const [place = '', ...query] = rest.slice(hasUser ? at + 1 : 0).split('?')
  if (place.includes('@')) {
    throw new MalformedUrl('an @ or / of its user or password must be written as %40 or %2F')
  }
  if (/\s/.test(place)) throw new MalformedUrl('a blank in it must be written as %20')
  const [hosts = '', ...database] = place.split('/')
  return {
    userInfo,
    hosts,
    database: database.join('/'),
    query: query.join('?'),
  }
}

/** The hosts and the ports, as comma-separated lists of equal length; empty texts where the URL has none. */
function parseHosts(text: string): { readonly host: string; readonly port: string } {
  const entries = text.split(',').map(entry => {
    const parts = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::([^:]*))?$/.exec(entry)
    if (parts === null) {
      throw new MalformedUrl('a host in it is not HOST, HOST:PORT or [IPV6]:PORT')
    }
    const [, address, host = '', port = ''] = parts
    if (address !== undefined && !isIPv6(decode(address))) {
      throw new MalformedUrl('the text in brackets in it is not an IPv6 address')
    }
    return { host: decode(address ?? host), port: decode(port) }
  })
  return {
    host: entries.map(({ host }) => host).join(','),
    port: entries.map(({ port }) => port).join(','),
  }
}

function parseQuery(query: string): PostgresUrl {
  const texts = new Map<PostgresParameter, string>()
  // As in libpq, the last parameter may have an & after it.
  const parts = (query.endsWith('&') ? query.slice(0, -1) : query).split('&')
  for (const part of query === '' ? [] : parts) {
    const equals = part.indexOf('=')
    const name = decode(equals === -1 ? part : part.slice(0, equals))
    const known = POSTGRES_PARAMETERS.find(parameter => parameter === name)
    if (known === undefined)
      throw new MalformedUrl(describeUnknown(name, isInPassword(query, texts)))
    if (texts.has(known)) throw new MalformedUrl(`it has the parameter ${known} twice`)
    const text = equals === -1 ? '' : part.slice(equals + 1)
    if (text === '' && known !== 'password') {
      throw new MalformedUrl(`its parameter ${known} is empty`)
    }
    texts.set(known, decode(known === 'options' ? withBlanks(text) : text))
  }
  return Object.fromEntries(texts)
}

/** Whether an unknown name may be a part of a password in which characters are not encoded. */
function isInPassword(query: string, before: ReadonlyMap<PostgresParameter, string>): boolean {
  return query.includes('@') || before.has('password')
}

function describeUnknown(name: string, isSecret: boolean): string {
  if (isSecret) {
    return 'it has an unknown parameter: each of ?, &, / and @ in its password must be percent-encoded'
  }
  const similar = nearest(name, POSTGRES_PARAMETERS)
  const hint = similar === undefined ? '' : ` (did you mean ${similar}?)`
  return `it has the unknown parameter ${JSON.stringify(name.slice(0, 50))}${hint}`
}

/** `new URLSearchParams()` writes blanks as +. A + after -c has no other meaning: no name of a setting begins with it. */
function withBlanks(options: string): string {
  return options.includes('-c+') ? options.replaceAll('+', ' ') : options
}

function decode(text: string): string {
  let decoded: string
  try {
    decoded = decodeURIComponent(text)
  } catch {
    throw new MalformedUrl('a % in it does not begin an encoded character: write % itself as %25')
  }
  if (decoded.includes('\0')) throw new MalformedUrl('it has the character %00')
  return decoded
}
