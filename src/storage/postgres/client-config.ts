import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import type { ClientConfig } from 'pg'
import type { PostgresHost, PostgresLocation, PostgresTls } from '../../config/postgres-url.ts'
import { UnusableDatabase } from '../unusable-database.ts'
import { readTlsContext } from './tls-context.ts'

/**
 * How `PostgresClient` connects to each host of a location. Reads the certificate files, once. Throws `UnusableDatabase` if
 * one cannot be used. A connection that needs a missing password fails with `UnusableDatabase` too.
 */
export function createClientConfigs(
  location: PostgresLocation,
): (host: PostgresHost) => ClientConfig {
  const { tls } = location
  const context = tls && readTlsContext(tls)
  // Where a value is missing, `pg` would look for it in the environment or in ~/.pgpass.
  const common: ClientConfig = {
    user: location.user,
    database: location.database,
    password: location.password ?? refuseWithoutPassword,
    application_name: location.applicationName,
    options: location.options,
    connectionTimeoutMillis: location.connectTimeoutMs ?? 0,
    client_encoding: 'UTF8',
    sslnegotiation: 'postgres',
  }
  return ({ host, port }) => {
    // As in libpq, the connections of Unix sockets are never encrypted.
    const hasTls = tls !== undefined && context !== undefined && !host.startsWith('/')
    const ssl = hasTls && { secureContext: context, ...verificationOf(tls, host) }
    return { ...common, host, port, ssl, enableChannelBinding: hasTls }
  }
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

function refuseWithoutPassword(): never {
  throw new UnusableDatabase('the server asks for a password, and none is given')
}
