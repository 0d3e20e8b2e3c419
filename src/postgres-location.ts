/** Where a PostgreSQL database is, and how to connect to it. */
export interface PostgresLocation {
  readonly kind: 'postgres'
  /** The text of the setting. */
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
  /** Paths of PEM files. */
  readonly rootCertificate: string | undefined
  readonly certificate: string | undefined
  readonly key: string | undefined
}
