import { randomBytes } from 'node:crypto'
import { queryPostgres } from './postgres-client.ts'

const DAY_MS = 86_400_000

const NAME = /^user_records_test_(\d+)_[0-9a-f]{12}$/

const SELECT_NAMES = `SELECT datname AS name FROM pg_database WHERE datname LIKE 'user_records_test_%'`

/** The name of a new database of a test. It contains the time. */
export function newDatabaseName(now: number): string {
  return `user_records_test_${now}_${randomBytes(6).toString('hex')}`
}

/** The URL of another database on the same server. */
export function urlOfDatabase(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** Drops the databases that tests made more than a day ago. Those tests were killed. */
export async function dropForgottenDatabases(url: string, now: number): Promise<void> {
  for (const { name } of await queryPostgres(url, SELECT_NAMES)) {
    const madeAt = NAME.exec(String(name))?.[1]
    if (madeAt === undefined || now - Number(madeAt) <= DAY_MS) continue
    await queryPostgres(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  }
}
