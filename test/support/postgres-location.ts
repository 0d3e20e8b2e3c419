import { locatePostgres, type PostgresLocation } from '../../src/config/postgres-url.ts'

/** The location that a URL names by itself. */
export function locationOf(url: string): PostgresLocation {
  const location = locatePostgres(url, {}, () => undefined)
  if (location === undefined) throw new Error('the URL is wrong')
  return location
}
