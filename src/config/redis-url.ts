import { isIPv6 } from 'node:net'
import type { RedisLocation, RedisNode } from './redis-location.ts'
import type { ValueKind } from './value-kind.ts'

/** Not checked against the network: opening it does that. */
export const redisUrl: ValueKind<RedisLocation> = {
  mayBe:
    'redis://USER:PASSWORD@HOST:PORT/DATABASE, the same with rediss:// for TLS, or a comma-separated list of nodes of a Redis Cluster',
  read: url => {
    try {
      return { value: parseRedisUrl(url) }
    } catch (error) {
      if (!(error instanceof MalformedRedisUrl)) throw error
      return { why: error.message || undefined }
    }
  },
}

/** The message completes a sentence that begins with the name of the setting. It shows no part of a password. */
class MalformedRedisUrl extends Error {}

const DEFAULT_PORT = 6379

const SCHEME = /^(rediss?):\/\//i

/** What stands between two commas. */
interface Entry {
  readonly scheme: string | undefined
  /** With its user or password, if it has any. */
  readonly userInfo: string | undefined
  readonly node: RedisNode
  readonly database: number | undefined
}

/**
 * `new URL()` does not know lists of nodes. In a list, the scheme and the credentials stand before the first node or before
 * each.
 */
function parseRedisUrl(url: string): RedisLocation {
  if (!SCHEME.test(url)) throw new MalformedRedisUrl()
  refuseExtras(url)
  const entries = url.split(',').map(parseEntry)
  const [first] = entries as [Entry]
  for (const { scheme, userInfo } of entries.slice(1)) {
    if (scheme !== undefined && scheme !== first.scheme) {
      throw new MalformedRedisUrl('it mixes redis:// and rediss://')
    }
    if (userInfo !== undefined && userInfo !== first.userInfo) {
      throw new MalformedRedisUrl('the nodes of a Cluster need the same user and password')
    }
  }
  const database = entries.findLast(entry => entry.database !== undefined)?.database ?? 0
  if (entries.length > 1 && database !== 0) {
    throw new MalformedRedisUrl('a Redis Cluster has no database but 0')
  }
  const [username = '', ...password] = first.userInfo?.split(':') ?? []
  return {
    url,
    nodes: entries.map(({ node }) => node),
    username: decode(username) || undefined,
    password: decode(password.join(':')) || undefined,
    database,
    isEncrypted: first.scheme === 'rediss',
  }
}

function refuseExtras(url: string): void {
  if (/\s/.test(url)) throw new MalformedRedisUrl('a blank in it must be written as %20')
  if (/[?#]/.test(url)) {
    throw new MalformedRedisUrl(
      'it may have no parameters: a ? or # in its password must be written as %3F or %23',
    )
  }
}

function parseEntry(text: string): Entry {
  const [, scheme] = SCHEME.exec(text) ?? []
  const rest = text.replace(SCHEME, '')
  const at = rest.lastIndexOf('@')
  const userInfo = at === -1 ? undefined : rest.slice(0, at)
  if (userInfo?.includes('@') || userInfo?.includes('/')) {
    throw new MalformedRedisUrl('an @ or / in its user or password must be written as %40 or %2F')
  }
  const [host = '', ...database] = rest.slice(at + 1).split('/')
  return {
    scheme: scheme?.toLowerCase(),
    userInfo,
    node: parseNode(host),
    database: parseDatabase(database.join('/')),
  }
}

function parseNode(text: string): RedisNode {
  const parts = /^(?:\[([^\]]*)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text)
  if (parts === null) {
    throw new MalformedRedisUrl(
      'a host in it is not HOST, HOST:PORT or [IPV6]:PORT (a comma in its password must be written as %2C)',
    )
  }
  const [, address, host = '', digits] = parts
  if (address !== undefined && !isIPv6(address)) {
    throw new MalformedRedisUrl('the text in brackets in it is not an IPv6 address')
  }
  const port = digits === undefined ? DEFAULT_PORT : Number(digits)
  if (port < 1 || port > 65_535) throw new MalformedRedisUrl('a port in it is not 1 to 65535')
  return { host: address ?? decode(host), port }
}

function parseDatabase(text: string): number | undefined {
  if (text === '') return undefined
  if (!/^\d{1,6}$/.test(text)) {
    throw new MalformedRedisUrl('what follows its host is not the number of a database')
  }
  return Number(text)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new MalformedRedisUrl(
      'a % in it does not begin an encoded character: write % itself as %25',
    )
  }
}
