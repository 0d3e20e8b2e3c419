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

/** The parameters of a PostgreSQL URL, by their names in libpq. */
export const POSTGRES_PARAMETERS = [
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'application_name',
  'connect_timeout',
  'options',
] as const

export type PostgresParameter = (typeof POSTGRES_PARAMETERS)[number]
