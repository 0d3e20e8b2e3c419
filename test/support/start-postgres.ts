import type { TestProject } from 'vitest/node'
import { openConnections } from '../../src/storage/postgres/open-connections.ts'
import { migratePostgres } from '../../src/storage/postgres/postgres-migrator.ts'
import { createPostgresCluster } from './postgres-cluster.ts'
import { createDatabaseOn, locationOf, queryPostgres } from './postgres-databases.ts'
import { TEST_POSTGRES_URL } from './programs.ts'

export interface PostgresServer {
  /** Of a role that may create databases. */
  readonly url: string
  /** The end of CREATE DATABASE for an empty database. */
  readonly createOptions: string
  /** The end of CREATE DATABASE for one with the schema of this release. */
  readonly templateOptions: string
}

declare module 'vitest' {
  interface ProvidedContext {
    postgres: PostgresServer
  }
}

const VERSION = `SELECT current_setting('server_version_num')::int AS number`

const COLLATIONS = `
  SELECT FROM pg_collation
  WHERE collprovider = 'i' AND current_setting('server_version_num')::int >= 150000 LIMIT 1`

/** Provides the tests of a project with a PostgreSQL server: that of `TEST_POSTGRES_URL`, or one for this run. */
export default async function startPostgres(project: TestProject): Promise<() => Promise<void>> {
  const cluster = TEST_POSTGRES_URL === undefined ? await createPostgresCluster() : undefined
  const url = cluster?.url() ?? (TEST_POSTGRES_URL as string)
  const options = await createOptions(url)
  // Copying it takes a fraction of the time of the migrations. It has no signing keys, which must differ.
  const template = await createDatabaseOn(url, options)
  const connections = openConnections({ location: locationOf(template.url) })
  await migratePostgres({ connections, now: Date.now })
  await connections.close()
  const templateOptions = `TEMPLATE ${template.name}${await copyStrategy(url)}`
  project.provide('postgres', { url, createOptions: options, templateOptions })
  return cluster?.remove ?? template.drop
}

/** From PostgreSQL 15 on the usual strategy goes through the log of the server, and takes three times as long. */
async function copyStrategy(url: string): Promise<string> {
  const [version] = await queryPostgres(url, VERSION)
  return Number(version?.number) >= 150_000 ? ' STRATEGY FILE_COPY' : ''
}

/** A collation that sorts unlike SQLite does, if the server has it: the service must not depend on the database's. */
async function createOptions(url: string): Promise<string> {
  const hasIcu = (await queryPostgres(url, COLLATIONS)).length > 0
  const collation = hasIcu ? ` LOCALE_PROVIDER icu ICU_LOCALE 'en-US'` : ''
  return `ENCODING 'UTF8' TEMPLATE template0${collation}`
}
