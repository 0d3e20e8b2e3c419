import type { ClientConfig } from 'pg'
import type { PostgresHost, PostgresLocation } from '../../postgres-location.ts'

export function clientConfig(
  location: PostgresLocation,
  { host, port }: PostgresHost,
): ClientConfig {
  return {
    host,
    port,
    user: location.user,
    database: location.database,
    password: location.password ?? '',
    ssl: false,
    application_name: location.applicationName,
    ...(location.options && { options: location.options }),
  }
}
