import { userInfo } from 'node:os'
import type { PostgresHost, PostgresLocation, PostgresTls } from './postgres-location.ts'
import {
  createReader,
  DEFAULT_HOST,
  DEFAULT_PORT,
  REFUSED_VARIABLES,
  type Reader,
} from './postgres-parameters.ts'
import { MalformedUrl, parsePostgresUrl } from './postgres-url.ts'
import type { Reading, Variables, WrongVariable } from './value-kind.ts'

const DEFAULT_APPLICATION_NAME = 'user-records-service'

/** The location that a URL names. What it leaves out comes from the variables of libpq, then from its defaults. */
export function locatePostgres(url: string, variables: Variables): Reading<PostgresLocation> {
  const wrongVariables: WrongVariable[] = Object.entries(REFUSED_VARIABLES).flatMap(
    ([name, mayBe]) => {
      const text = variables[name]
      return text === undefined ? [] : [{ name, text, mayBe }]
    },
  )
  try {
    const reader = createReader(parsePostgresUrl(url), variables, wrongVariables)
    const value = locate(url, reader)
    return wrongVariables.length === 0 ? { value } : { wrongVariables }
  } catch (error) {
    if (!(error instanceof MalformedUrl)) throw error
    return { why: error.message }
  }
}

function locate(url: string, reader: Reader): PostgresLocation {
  const { read } = reader
  const user = read('user') ?? findSystemUser()
  const timeoutMs = read('connect_timeout')
  return {
    kind: 'postgres',
    url,
    hosts: readHosts(reader),
    user,
    database: read('dbname') ?? user,
    password: read('password') || undefined,
    tls: readTls(reader),
    applicationName: read('application_name') ?? DEFAULT_APPLICATION_NAME,
    connectTimeoutMs: timeoutMs === undefined || timeoutMs <= 0 ? undefined : timeoutMs,
    options: read('options'),
  }
}

function readHosts({ read, blame }: Reader): PostgresHost[] {
  const hosts = read('host') ?? [DEFAULT_HOST]
  const ports = read('port') ?? [DEFAULT_PORT]
  const [first = DEFAULT_PORT] = ports
  if (ports.length > 1 && ports.length !== hosts.length) {
    blame(
      'port',
      `has ${ports.length} ports for ${hosts.length} ${hosts.length === 1 ? 'host' : 'hosts'}`,
    )
  }
  return hosts.map((host, index) => ({ host, port: ports[index] ?? first }))
}

/** As in libpq: `require` with a root certificate verifies the chain, and `system` stands for public certificates. */
function readTls({ read, blame, isInUrl }: Reader): PostgresTls | undefined {
  const root = read('sslrootcert')
  const isSystem = root === 'system'
  const mode = read('sslmode') ?? (isSystem ? 'verify-full' : undefined)
  const certificate = read('sslcert')
  const key = read('sslkey')
  if (mode === undefined) {
    const idle = (['sslrootcert', 'sslcert', 'sslkey'] as const).find(isInUrl)
    if (idle) blame(idle, 'has no effect without sslmode, and nothing would be encrypted')
  }
  if (mode === undefined || mode === 'disable') return undefined
  if (isSystem && mode !== 'verify-full')
    blame('sslmode', 'is too weak for sslrootcert=system, which needs verify-full')
  if (certificate !== undefined && key === undefined) blame('sslcert', 'needs sslkey or PGSSLKEY')
  if (key !== undefined && certificate === undefined) blame('sslkey', 'needs sslcert or PGSSLCERT')
  const verify =
    mode === 'verify-full' ? 'full' : mode === 'verify-ca' || root !== undefined ? 'ca' : 'none'
  return { verify, rootCertificate: isSystem ? undefined : root, certificate, key }
}

function findSystemUser(): string {
  try {
    return userInfo().username
  } catch {
    // In a container, the user may have a number only.
    throw new MalformedUrl('it names no user, and the user of this process has no name')
  }
}
