import { MALFORMED, maskCredentials, splitUrl } from './url-parts.ts'
import type { Environment, Refuse, ValueKind } from './values.ts'

/** Where Redis is, and how to connect to it. */
export type RedisLocation = NonNullable<ReturnType<typeof locateRedis>>
export type RedisNode = RedisLocation['nodes'][number]

/** Not checked against the network: opening it does that. */
export const redisUrl: ValueKind<RedisLocation> = {
  mayBe:
    'redis://USER:PASSWORD@HOST:PORT/DATABASE, the same with rediss:// for TLS, or a comma-separated list of nodes of a Redis Cluster',
  mayHoldPassword: true,
  read: locateRedis,
}

function locateRedis(url: string, _: Environment, refuse: Refuse) {
  const [start] = /^rediss?:\/\/(?:[^@/]*@)?/i.exec(url) ?? []
  if (start === undefined) return undefined
  // In a list, the scheme, the credentials and the database 0 may stand in each entry.
  const whole = url.replaceAll(/\/0?(?=,)/g, '').replaceAll(`,${start}`, ',')
  const parts = splitUrl(whole)
  if (parts === undefined) return refuse({ why: MALFORMED })
  const { user, password, hosts, ports, path } = parts
  const text = maskCredentials(whole)
  const numbers = ports.map(port => Number(port || 6379))
  if (/,/.test(user + password)) {
    return refuse({
      why: 'a comma in its user or password must be written as %2C, and nodes share them',
    })
  }
  if (hosts.some(host => /^$|#/.test(host)) || numbers.some(port => port < 1 || port > 65_535)) {
    return refuse({ text, why: 'a node in it is not HOST, HOST:PORT or [IPV6]:PORT' })
  }
  if (!/^\d{0,6}$/.test(path) || url.includes('?') || (hosts.length > 1 && Number(path) > 0)) {
    const why = 'only the number of a database may follow its host, and 0 in a Cluster'
    return refuse({ text, why })
  }
  return {
    /** The text of the setting without credentials. */
    url: text,
    /** Several are nodes of one Redis Cluster. One may be a server or a node of a Cluster. */
    nodes: hosts.map((host, index) => ({
      host: decodeURIComponent(host),
      port: Number(numbers[index]),
    })),
    username: decodeURIComponent(user) || undefined,
    password: decodeURIComponent(password) || undefined,
    /** Always 0 in a Cluster. */
    database: Number(path),
    isEncrypted: /^rediss/i.test(url),
  } as const
}
