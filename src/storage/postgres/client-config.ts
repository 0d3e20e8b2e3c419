import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP, type Socket } from 'node:net'
import {
  checkServerIdentity,
  createSecureContext,
  type PeerCertificate,
  type SecureContext,
} from 'node:tls'
import pg, { type ClientConfig } from 'pg'
import type { PostgresLocation, PostgresTls } from '../../config/postgres-url.ts'
import { readFailureInWords } from '../../errors.ts'
import { UnusableDatabase } from '../unusable-database.ts'

export interface PostgresClientConfig extends ClientConfig {
  /** Whether it fails unless its password is bound to the certificate of the server. */
  readonly mustBind?: boolean
}

/** A client that takes nothing from the environment. Its config is one of `createClientConfigs`. */
export class PostgresClient extends pg.Client {
  /** What the types of the driver leave out. */
  declare readonly processID: number
  declare readonly connection: pg.Connection & { readonly stream: Socket }

  constructor(config: PostgresClientConfig) {
    super(config)
    // `Client` takes these from PGOPTIONS and PGREPLICATION if the config has none.
    const { connectionParameters } = this as unknown as { connectionParameters: object }
    Object.assign(connectionParameters, { options: config.options, replication: undefined })
    if (config.mustBind) requireBinding(this, config)
  }
}

const WITH_BINDING = 'SCRAM-SHA-256-PLUS'

/** As in libpq: without channel binding the server gets no password, and its answer is not taken. */
function requireBinding(client: PostgresClient, { password, enableChannelBinding }: ClientConfig) {
  let canBind = false
  let isBound = false
  const { connection } = client
  const refuse = () =>
    new UnusableDatabase(
      `the server does not ask for a password by ${WITH_BINDING}, which channel_binding=require needs`,
    )
  connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: readonly string[] }) => {
    canBind = enableChannelBinding === true && mechanisms.includes(WITH_BINDING)
  })
  // The driver has checked the proof of the server, or emits an error.
  connection.on('authenticationSASLFinal', () => {
    isBound = canBind
  })
  connection.on('authenticationOk', () => {
    if (!isBound) connection.emit('error', refuse())
  })
  Object.assign(client, {
    password: () => {
      if (!canBind) throw refuse()
      return typeof password === 'function' ? password() : password
    },
  })
}

/**
 * How `PostgresClient` connects to each host of a location. Reads the certificate files, once. Throws `UnusableDatabase` if
 * one cannot be used. A connection that needs a missing password fails with `UnusableDatabase` too.
 */
export function createClientConfigs(location: PostgresLocation): readonly PostgresClientConfig[] {
  const { tls, channelBinding } = location
  const context = tls && readTlsContext(tls)
  // Where a value is missing, `pg` would look for it in the environment or in ~/.pgpass.
  const common: PostgresClientConfig = {
    user: location.user,
    database: location.database,
    application_name: location.applicationName,
    options: location.options,
    client_encoding: 'UTF8',
    sslnegotiation: 'postgres',
    mustBind: channelBinding === 'require',
  }
  return location.hosts.map(({ host, port }) => {
    // As in libpq, the connections of Unix sockets are never encrypted.
    const hasTls = tls !== undefined && context !== undefined && !host.startsWith('/')
    const ssl = hasTls && { secureContext: context, ...verificationOf(tls, host) }
    return {
      ...common,
      host,
      port,
      password: location.password ?? (() => readPassword(location, host, port)),
      ssl,
      enableChannelBinding: hasTls && channelBinding !== 'disable',
    }
  })
}

function verificationOf({ verify }: PostgresTls, host: string) {
  return {
    rejectUnauthorized: verify !== 'none',
    checkServerIdentity: (_: string, certificate: PeerCertificate) =>
      verify === 'full' ? checkName(host, certificate) : undefined,
  }
}

/** As in libpq, the common name of a certificate without other names may be an address. Node allows only names there. */
function checkName(host: string, certificate: PeerCertificate): Error | undefined {
  const { subject, subjectaltname } = certificate
  const isCommonName = subjectaltname === undefined && subject.CN === host
  return isIP(host) !== 0 && isCommonName ? undefined : checkServerIdentity(host, certificate)
}

/** A line of the file may name the folder of a Unix socket or, as libpq does, localhost in its place. */
function readPassword(
  { passwordFile, database, user }: PostgresLocation,
  host: string,
  port: number,
): string {
  if (passwordFile === undefined) {
    throw new UnusableDatabase('the server asks for a password, and none is given')
  }
  const text = readFile('passfile', passwordFile)
  const find = (place: string) => findPassword(text, [place, String(port), database, user])
  const password = find(host) ?? (host.startsWith('/') ? find('localhost') : undefined)
  if (password !== undefined) return password
  throw unusable('passfile', passwordFile, 'has no password for this server, database and user')
}

/**
 * The password of the first line that fits host, port, database and user, as in libpq:
 * https://www.postgresql.org/docs/current/libpq-pgpass.html
 */
export function findPassword(text: string, use: readonly string[]): string | undefined {
  const line = new RegExp(`^${use.map(patternOf).join('')}(.*)$`, 'mu')
  return line.exec(text)?.[1]?.replaceAll(/\\(.)/gu, '$1')
}

/** A field of a line. libpq takes any character with or without a backslash before it, also the colons of an IPv6 address. */
function patternOf(value: string): string {
  const characters = Array.from(value, each => `\\\\?\\u{${each.codePointAt(0)?.toString(16)}}`)
  return `(?:\\*|${characters.join('')}):`
}

function readTlsContext({ rootCertificate, certificate, key }: PostgresTls): SecureContext {
  const ca = rootCertificate && readCertificate('sslrootcert', rootCertificate)
  const client = certificate && key ? readClientCertificate(certificate, key) : {}
  return createSecureContext({ ...(ca && { ca }), ...client })
}

function readCertificate(parameter: string, path: string): string {
  const text = readFile(parameter, path)
  try {
    // `createSecureContext` ignores a root certificate that it cannot read.
    new X509Certificate(text)
  } catch {
    throw unusable(parameter, path, 'is not a certificate in PEM format')
  }
  return text
}

function readClientCertificate(certificatePath: string, keyPath: string) {
  const cert = readCertificate('sslcert', certificatePath)
  const key = readFile('sslkey', keyPath)
  try {
    if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return { cert, key }
  } catch {
    // The error itself is of no use, because it may show some of the key.
  }
  const why = 'is not the private key of sslcert in PEM format without a passphrase'
  throw unusable('sslkey', keyPath, why)
}

function readFile(parameter: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw unusable(parameter, path, `cannot be read (${readFailureInWords(cause)})`)
  }
}

function unusable(parameter: string, path: string, why: string): UnusableDatabase {
  return new UnusableDatabase(`the file ${JSON.stringify(path)} of ${parameter} ${why}`)
}
