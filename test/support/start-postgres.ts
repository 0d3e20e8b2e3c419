import type { TestProject } from 'vitest/node'
import { dropForgottenDatabases } from './forgotten-databases.ts'
import { queryPostgres } from './postgres-client.ts'
import { createPostgresCluster } from './postgres-cluster.ts'
import { TEST_POSTGRES_URL } from './postgres-settings.ts'

export interface PostgresServer {
  /** Of a role that may create databases. */
  readonly url: string
  /** The end of each CREATE DATABASE. */
  readonly createOptions: string
}

declare module 'vitest' {
  interface ProvidedContext {
    postgres: PostgresServer
  }
}

const COLLATIONS = `
  SELECT FROM pg_collation
  WHERE collprovider = 'i' AND current_setting('server_version_num')::int >= 150000 LIMIT 1`

/** Provides the tests of a project with a PostgreSQL server: that of `TEST_POSTGRES_URL`, or one for this run. */
export default async function startPostgres(project: TestProject): Promise<() => Promise<void>> {
  const cluster = TEST_POSTGRES_URL === undefined ? await createPostgresCluster() : undefined
  const url = cluster?.url() ?? (TEST_POSTGRES_URL as string)
  await dropForgottenDatabases(url, Date.now())
  project.provide('postgres', { url, createOptions: await createOptions(url) })
  return async () => {
    await cluster?.remove()
  }
}

/** A collation that sorts unlike SQLite does, if the server has it: the service must not depend on the database's. */
async function createOptions(url: string): Promise<string> {
  const hasIcu = (await queryPostgres(url, COLLATIONS)).length > 0
  const collation = hasIcu ? ` LOCALE_PROVIDER icu ICU_LOCALE 'en-US'` : ''
  return `ENCODING 'UTF8' TEMPLATE template0${collation}`
}
