import { isIP } from 'node:net'
import { userInfo } from 'node:os'
import { MALFORMED, maskCredentials, splitUrl } from './url-parts.ts'
import type { Environment, Refuse } from './values.ts'

/** Where a PostgreSQL database is, and how to connect to it. */
export type PostgresLocation = NonNullable<ReturnType<typeof locatePostgres>>
export type PostgresTls = NonNullable<PostgresLocation['tls']>

/** The parameters of a URL by their names in libpq: the variables that give what it leaves out, and what they may be. */
const PARAMETERS: Readonly<Record<string, Parameter>> = {
  host: [
    'PGHOST',
    'host names, IP addresses or folders of Unix sockets, separated by commas',
    text => text.split(',').every(isHost),
  ],
  port: [
    'PGPORT',
    'a port from 1 to 65535, or one for each host, separated by commas',
    text => text.split(',').every(isPort),
  ],
  user: ['PGUSER'],
  password: ['PGPASSWORD'],
  passfile: ['PGPASSFILE'],
  dbname: ['PGDATABASE'],
  sslmode: [
    'PGSSLMODE',
    'disable, require, verify-ca or verify-full, but not prefer or allow, which leave it to the server whether the connection is encrypted',
    text => /^(?:disable|require|verify-ca|verify-full)$/.test(text),
  ],
  sslrootcert: ['PGSSLROOTCERT'],
  sslcert: ['PGSSLCERT'],
  sslkey: ['PGSSLKEY'],
  channel_binding: [
    'PGCHANNELBINDING',
    'disable, prefer or require',
    text => /^(?:disable|prefer|require)$/.test(text),
  ],
  target_session_attrs: [
    'PGTARGETSESSIONATTRS',
    'read-write or primary, because the service uses the host that takes writes',
    text => /^(?:read-write|primary)$/.test(text),
  ],
  application_name: ['PGAPPNAME'],
  connect_timeout: [
    'PGCONNECT_TIMEOUT',
    'a whole number of seconds, where 0 is the default of the service',
    text => /^-?\d{1,6}$/.test(text),
  ],
  options: ['PGOPTIONS'],
  // They would lead to another database if they were ignored.
  hostaddr: ['PGHOSTADDR', 'left out only, because PGHOST also takes addresses', isNeverRight],
  service: ['PGSERVICE', 'left out only, because service files are not read', isNeverRight],
}

const KNOWN = Object.keys(PARAMETERS).filter(name => PARAMETERS[name]?.[2] !== isNeverRight)

type Parameter = readonly [variable: string, mayBe?: string, isRight?: (text: string) => boolean]

/** The variables that complete a URL, or that cannot be used with one. */
export const POSTGRES_VARIABLES: readonly string[] = Object.values(PARAMETERS).map(([name]) => name)

export function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\//i.test(text)
}

/** The location that a URL names. What it leaves out comes from the variables of libpq, then from its defaults. */
export function locatePostgres(text: string, variables: Environment, refuse: Refuse) {
  const inUrl = parametersOf(text)
  if (typeof inUrl === 'string') return refuse({ why: inUrl })
  const given: Record<string, string | undefined> = {}
  let isWrong = false
  for (const [parameter, [name, mayBe = '', isRight]] of Object.entries(PARAMETERS)) {
    const value = inUrl.get(parameter) ?? variables[name]
    given[parameter] = value
    if (value === undefined || !isRight || isRight(value)) continue
    isWrong = true
    const why = `its ${parameter} is wrong: it may be ${mayBe}`
    if (inUrl.has(parameter)) refuse({ why })
    else refuse({ name, text: maskCredentials(value, true), mayBe })
  }
  if (isWrong) return undefined
  const user = given.user ?? findSystemUser()
  const why = user === undefined ? NO_USER : findContradiction(given, [...inUrl.keys()])
  if (user === undefined || why !== undefined) return refuse({ why })
  const ports = given.port?.split(',') ?? []
  const portOf = (index: number) => Number(ports[ports.length > 1 ? index : 0] || 5432)
  // Without a host, libpq would use a Unix socket, in a folder that differs from build to build.
  const hosts = (given.host ?? '').split(',').map(host => host || 'localhost')
  const timeoutMs = Number(given.connect_timeout) * 1000
  return {
    kind: 'postgres',
    /** The text of the setting without credentials. */
    url: maskCredentials(text),
    /**
     * Names, IP addresses, or folders of Unix sockets, which begin with a slash. Tried in this order; the first that accepts
     * writes is used. At least one.
     */
    hosts: hosts.map((host, index) => ({ host, port: portOf(index) })),
    user,
    database: given.dbname ?? user,
    password: given.password || undefined,
    /** Where `password` comes from if it is left out: the path of a file as libpq has it, which is read for each connection. */
    passwordFile: given.passfile,
    /** `undefined` for connections without TLS. */
    tls: tlsOf(given),
    /** Whether a password is bound to the certificate of the server: never, where both can do it, or always. */
    channelBinding: (given.channel_binding ?? 'prefer') as 'disable' | 'prefer' | 'require',
    applicationName: given.application_name ?? 'user-records-service',
    /** `undefined` for the default of the service. */
    connectTimeoutMs: timeoutMs > 0 ? timeoutMs : undefined,
    /** Command-line options for the server, such as `-c search_path=app`. */
    options: given.options,
  } as const
}

const NO_USER = 'it names no user, and the user of this process has no name'

/** Why parameters that are right by themselves cannot be used together. */
function findContradiction(given: Environment, inUrl: readonly string[]): string | undefined {
  const { host = '', port = '', sslmode, sslrootcert: root, sslcert, sslkey } = given
  if (port.includes(',') && port.split(',').length !== host.split(',').length) {
    return 'it has more or fewer ports (also of PGPORT) than hosts (also of PGHOST)'
  }
  if (root === 'system' && sslmode !== undefined && sslmode !== 'verify-full') {
    return 'sslrootcert=system (or PGSSLROOTCERT) needs sslmode=verify-full'
  }
  const hasTls = tlsOf(given) !== undefined
  if (sslmode === undefined && !hasTls && inUrl.some(name => name.startsWith('ssl'))) {
    return 'its parameters for TLS have no effect without sslmode, and nothing would be encrypted'
  }
  if (given.channel_binding === 'require' && !hasTls) {
    return 'channel_binding=require (or PGCHANNELBINDING) needs TLS, such as sslmode=require'
  }
  const isHalf = hasTls && (sslcert === undefined) !== (sslkey === undefined)
  return isHalf ? 'sslcert and sslkey (PGSSLCERT and PGSSLKEY) need each other' : undefined
}

/** As in libpq: `require` with a root certificate verifies the chain, and `system` stands for public certificates. */
function tlsOf({ sslmode, sslrootcert: root, sslcert: certificate, sslkey: key }: Environment) {
  const isSystem = root === 'system'
  const mode = sslmode ?? (isSystem ? 'verify-full' : 'disable')
  if (mode === 'disable') return undefined
  const verifiesChain = mode === 'verify-ca' || root !== undefined
  return {
    /** What is checked of the server's certificate: nothing, its chain, or its chain and the name of the host. */
    verify: mode === 'verify-full' ? 'full' : verifiesChain ? 'ca' : 'none',
    /** Paths of PEM files. Without `rootCertificate`, the root certificates of Node are trusted. */
    rootCertificate: isSystem ? undefined : root,
    /** Given together with `key`, or not at all. */
    certificate,
    key,
  } as const
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
 * The parameters of a URL, or what is wrong with it. As in libpq, a parameter after the ? wins over the same part before it, and
 * + stands for itself.
 */
function parametersOf(url: string) {
  const parts = splitUrl(url)
  if (parts === undefined) return MALFORMED
  const { user, password, hosts, ports, path: dbname, query } = parts
  // A blank of options may be written as +, as `new URLSearchParams()` writes it.
  const pieces = query.split('&').map(piece => {
    return piece.replaceAll('+', /^options=.*-c\+/.test(piece) ? '%20' : '%2B')
  })
  if (pieces.length > 1 && pieces.includes('')) return 'it has an empty parameter'
  const parameters = new URLSearchParams(pieces.join('&'))
  const names = [...parameters.keys()]
  const unknown = names.find(name => !Object.hasOwn(PARAMETERS, name))
  if (unknown !== undefined) {
    const before = query.slice(0, query.indexOf(unknown))
    // It may be a part of a password.
    if (parameters.has('password') || maskCredentials(before) !== before) return MALFORMED
    return `its parameter ${JSON.stringify(maskCredentials(unknown).slice(0, 50))} is none of ${KNOWN.join(', ')}`
  }
  if (new Set(names).size < names.length) return 'it has a parameter twice'
  const empty = names.find(name => name !== 'password' && parameters.get(name) === '')
  if (empty !== undefined) return `its parameter ${empty} is empty`
  const before = { user, password, host: hosts.join(), port: ports.join(), dbname }
  for (const [name, text] of Object.entries(before)) {
    if (text !== '' && !parameters.has(name)) parameters.set(name, decodeURIComponent(text))
  }
  return parameters
}

function isHost(text: string): boolean {
  return text.startsWith('/') || isIP(text) !== 0 || /^[^\s@:/?#[\]]*$/.test(text)
}

function isNeverRight(): boolean {
  return false
}

function isPort(text: string): boolean {
  return text === '' || (/^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535)
}
