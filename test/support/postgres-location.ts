import { locatePostgres } from '../../src/config/locate-postgres.ts'
import type { PostgresLocation } from '../../src/config/postgres-location.ts'

/** The location that a URL names by itself. */
export function locationOf(url: string): PostgresLocation {
  const reading = locatePostgres(url, {})
  if (!('value' in reading)) throw new Error('the URL is wrong')
  return reading.value
}
