import { isIP } from 'node:net'
import { userInfo } from 'node:os'
import { z } from 'zod'
import { MALFORMED, splitUrl } from './url-parts.ts'
import {
  except,
  kindOf,
  matching,
  parseList,
  readTable,
  type ValueKind,
  type ValuesOf,
} from './values.ts'

/** Where a PostgreSQL database is, and how to connect to it. */
export interface PostgresLocation {
  readonly kind: 'postgres'
  /** The text of the setting. It may have a password: show it through `maskCredentials` only. */
  readonly url: string
  /** Tried in this order; the first that accepts writes is used. At least one. */
  readonly hosts: readonly PostgresHost[]
  readonly user: string
  readonly database: string
  readonly password: string | undefined
  /** `undefined` for connections without TLS. */
  readonly tls: PostgresTls | undefined
  readonly applicationName: string
  /** `undefined` for the default of the service. */
  readonly connectTimeoutMs: number | undefined
  /** Command-line options for the server, such as `-c search_path=app`. */
  readonly options: string | undefined
}

export interface PostgresHost {
  /** A name, an IP address, or the folder of a Unix socket, which begins with a slash. */
  readonly host: string
  readonly port: number
}

export interface PostgresTls {
  /** What is checked of the server's certificate: nothing, its chain, or its chain and the name of the host. */
  readonly verify: 'none' | 'ca' | 'full'
  /** Paths of PEM files. Without `rootCertificate`, the root certificates of Node are trusted. */
  readonly rootCertificate: string | undefined
  /** Given together with `key`, or not at all. */
  readonly certificate: string | undefined
  readonly key: string | undefined
}

const words = matching(/./s, 'a text that is not empty')
const pemFile = matching(/./s, 'the path of a PEM file')

/** The parameters of a URL by their names in libpq, each with the variable that gives it where the URL does not. */
const PARAMETERS = {
  // Without a host, libpq would use a Unix socket, in a folder that differs from build to build.
  host: [
    'PGHOST',
    list(isHost, 'host names, IP addresses or folders of Unix sockets'),
    'localhost',
  ],
  port: [
    'PGPORT',
    except(
      list(isPort, 'a port from 1 to 65535, or one for each host'),
      'there are more or fewer ports than hosts',
      (text, { PGHOST: hosts = '' }) => text.includes(',') && countOf(text) !== countOf(hosts),
    ),
    '5432',
  ],
  user: ['PGUSER', words],
  password: ['PGPASSWORD', matching(/^/, 'a password')],
  dbname: ['PGDATABASE', words],
  sslmode: [
    'PGSSLMODE',
    except(
      kindOf(
        'disable, require, verify-ca or verify-full, but not prefer or allow, which leave it to the server whether the connection is encrypted',
        z.enum(['disable', 'require', 'verify-ca', 'verify-full']),
      ),
      'sslrootcert=system needs verify-full',
      (mode, { PGSSLROOTCERT: root }) => root === 'system' && mode !== 'verify-full',
    ),
  ],
  sslrootcert: ['PGSSLROOTCERT', pemFile],
  sslcert: ['PGSSLCERT', pemFile],
  sslkey: ['PGSSLKEY', pemFile],
  application_name: ['PGAPPNAME', words, 'user-records-service'],
  connect_timeout: [
    'PGCONNECT_TIMEOUT',
    matching(/^-?\d{1,6}$/, 'a whole number of seconds, where 0 is the default of the service'),
    '0',
  ],
  options: ['PGOPTIONS', words],
  // They would lead to another database if they were ignored.
  hostaddr: ['PGHOSTADDR', matching(/^(?!)/, 'left out only, because PGHOST also takes addresses')],
  service: ['PGSERVICE', matching(/^(?!)/, 'left out only, because service files are not read')],
} as const

/** The variables that complete a URL, or that cannot be used with one. */
export const POSTGRES_VARIABLES: readonly string[] = Object.values(PARAMETERS).map(([name]) => name)

export function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\//i.test(text)
}

/** The location that a URL names. What it leaves out comes from the variables of libpq, then from its defaults. */
export const locatePostgres: ValueKind<PostgresLocation>['read'] = (url, variables, refuse) => {
  const inUrl = readParameters(url)
  if (typeof inUrl === 'string') return refuse({ why: inUrl })
  const texts = Object.entries(PARAMETERS).map(([name, [variable]]) => [
    variable,
    inUrl.get(name) ?? variables[variable],
  ])
  const { values: given, mistakes } = readTable(PARAMETERS, Object.fromEntries(texts))
  for (const mistake of mistakes) {
    const { field, why, mayBe } = mistake
    const because = why === undefined ? '' : `, because ${why}`
    const inWords = `its ${field} is wrong${because}: it may be ${mayBe}`
    refuse(inUrl.has(field) ? { why: inWords } : mistake)
  }
  if (mistakes.length > 0) return undefined
  const tls = tlsOf(given)
  if (
    given.sslmode === undefined &&
    tls === undefined &&
    [...inUrl.keys()].some(name => name.startsWith('ssl'))
  )
    return refuse({
      why: 'its parameters for TLS have no effect without sslmode, and nothing would be encrypted',
    })
  if (tls && (tls.certificate === undefined) !== (tls.key === undefined))
    return refuse({ why: 'sslcert and sslkey (PGSSLCERT and PGSSLKEY) need each other' })
  const user = given.user ?? findSystemUser()
  if (user === undefined)
    return refuse({ why: 'it names no user, and the user of this process has no name' })
  const { host, port, options, connect_timeout: timeout } = given
  const portOf = (index: number) => Number(port[port.length > 1 ? index : 0] || 5432)
  return {
    kind: 'postgres',
    url,
    hosts: host.map((name, index) => ({ host: name || 'localhost', port: portOf(index) })),
    user,
    database: given.dbname ?? user,
    password: given.password || undefined,
    tls,
    applicationName: given.application_name,
    connectTimeoutMs: Number(timeout) > 0 ? Number(timeout) * 1000 : undefined,
    // `new URLSearchParams()` writes blanks as +. No name of a setting of PostgreSQL begins with it.
    options: options?.includes('-c+') ? options.replaceAll('+', ' ') : options,
  }
}

/** As in libpq: `require` with a root certificate verifies the chain, and `system` stands for public certificates. */
function tlsOf(given: ValuesOf<typeof PARAMETERS>): PostgresTls | undefined {
  const { sslrootcert: root, sslcert: certificate, sslkey: key } = given
  const isSystem = root === 'system'
  const mode = given.sslmode ?? (isSystem ? 'verify-full' : 'disable')
  if (mode === 'disable') return undefined
  const verifiesChain = mode === 'verify-ca' || root !== undefined
  const verify = mode === 'verify-full' ? 'full' : verifiesChain ? 'ca' : 'none'
  return { verify, rootCertificate: isSystem ? undefined : root, certificate, key }
}

function findSystemUser(): string | undefined {
  try {
    return userInfo().username
  } catch {
    // In a container, the user may have a number only.
    return undefined
  }
}

/**
 * The texts of a URL by the names of their parameters, or why there are none. As in libpq, a parameter wins over the same thing
 * before the ?, and + means itself.
 */
function readParameters(url: string): ReadonlyMap<string, string> | string {
  const parts = splitUrl(url)
  if (parts === undefined) return MALFORMED
  const { user, password, places, path: dbname, query } = parts
  const host = places.map(place => place.host).join()
  const port = places.map(place => place.port).join()
  const before = Object.entries({ user, password, host, port, dbname })
    .filter(([, text]) => text !== '')
    .map(([name, text]) => [name, decodeURIComponent(text)] as const)
  const parameters = [...new URLSearchParams(query.replaceAll('+', '%2B'))]
  const names = parameters.map(([name]) => name)
  const unknown = names.find(name => !Object.hasOwn(PARAMETERS, name))
  // It may be a part of the password.
  if (unknown !== undefined && names.includes('password')) return MALFORMED
  if (unknown !== undefined)
    return `it has the unknown parameter ${JSON.stringify(unknown.slice(0, 50))}`
  if (new Set(names).size < names.length) return 'it has a parameter twice'
  return new Map([...before, ...parameters])
}

/** Entries may be empty. */
function list(isEntry: (text: string) => boolean, mayBe: string): ValueKind<string[]> {
  const parse = (text: string) => parseList(text, entry => entry === '' || isEntry(entry))
  return kindOf(`${mayBe}, separated by commas`, z.string().transform(parse))
}

function countOf(list: string): number {
  return list.split(',').length
}

function isHost(text: string): boolean {
  return text.startsWith('/') || isIP(text) !== 0 || /^[^\s@:/?#[\]]+$/.test(text)
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535
}
