import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { MigrationMismatch, readMigrations } from '../../../src/storage/migrations.ts'
import type { Connections, Session } from '../../../src/storage/postgres/postgres-connections.ts'
import {
  migratePostgres,
  postgresMigrationStatus,
  postgresMigrations,
  requireMigrated,
} from '../../../src/storage/postgres/postgres-migrator.ts'
import { openSigningKeys } from '../../../src/storage/postgres/postgres-signing-keys.ts'
import { UnusableDatabase } from '../../../src/storage/unusable-database.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { asServingRole, connectTo } from '../../support/postgres-connections.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { until } from '../../support/until.ts'

const NOW = Date.UTC(2026, 0, 31, 12)
const NOON = '2026-01-31T12:00:00.000Z'

const CREATE_CATS = 'CREATE TABLE cats (name text);'
const CREATE_DOGS = 'CREATE TABLE dogs (name text); CREATE INDEX dogs_name ON dogs (name);'

const SELECT_HISTORY = 'SELECT * FROM schema_migrations ORDER BY version'

const SELECT_TABLES = `
  SELECT schemaname || '.' || tablename AS name FROM pg_tables
  WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`

describe('migratePostgres', () => {
  test('applies all migrations to a new database, stores when, and does nothing the second time', async () => {
    const { database, connections } = await opened()
    const migrations = twoMigrations()
    await migratePostgres({ connections, migrations, now: () => NOW })
    await migratePostgres({ connections, migrations, now: () => NOW + 1 })
    expect(await tablesOf(database)).toEqual(['cats', 'dogs', 'schema_migrations'])
    expect(await database.sql(SELECT_HISTORY)).toEqual(
      migrations.map(({ version, name, hash }) => ({ version, name, hash, applied_at: NOON })),
    )
  })

  test('applies only what is missing', async () => {
    const { database, connections } = await opened()
    const [first] = twoMigrations()
    await migratePostgres({ connections, migrations: first ? [first] : [], now: () => NOW })
    expect(await postgresMigrationStatus(connections, twoMigrations())).toEqual([
      { name: '0001_cats', appliedAt: NOON },
      { name: '0002_dogs', appliedAt: undefined },
    ])
    await expect(requireMigrated(connections, twoMigrations())).rejects.toThrow(
      'its schema is that of an older release: run `migrate`',
    )
    await migratePostgres({ connections, migrations: twoMigrations(), now: () => NOW + 1000 })
    expect(await database.sql(SELECT_HISTORY)).toMatchObject([
      { applied_at: NOON },
      { applied_at: '2026-01-31T12:00:01.000Z' },
    ])
    await requireMigrated(connections, twoMigrations())
  })

  test('undoes a failing migration, keeps those before it, and continues once it is fixed', async () => {
    const { database, connections } = await opened()
    const broken = migrationFiles({
      '0001_cats.sql': CREATE_CATS,
      '0002_dogs.sql': `${CREATE_DOGS} INSERT INTO birds VALUES (1);`,
    })
    await expect(
      migratePostgres({ connections, migrations: broken, now: () => NOW }),
    ).rejects.toThrow('relation "birds" does not exist')
    expect(await tablesOf(database)).toEqual(['cats', 'schema_migrations'])
    await migratePostgres({ connections, migrations: twoMigrations(), now: () => NOW })
    expect(await tablesOf(database)).toEqual(['cats', 'dogs', 'schema_migrations'])
  })

  test('called by several processes at the same time applies each migration once', async () => {
    const { database } = await opened()
    const all = Array.from({ length: 6 }, () => connectTo(database.url))
    const migrations = postgresMigrations()
    await Promise.all(
      all.map(connections => migratePostgres({ connections, migrations, now: () => NOW })),
    )
    expect(await database.sql(SELECT_HISTORY)).toHaveLength(migrations.length)
  })

  test('waits for another process that migrates, but not for another schema, and not for ever', async () => {
    const { database, connections } = await opened()
    const migrations = twoMigrations()
    const key = `hashtextextended('schema_migrations of public', 0)`
    const other = connectTo(database.url)
    const release = await holding(other, `SELECT pg_advisory_xact_lock(${key})`)
    const impatient = migratePostgres({ connections, migrations, now: () => NOW, patienceMs: 1 })
    await expect(impatient).rejects.toThrow('another process is migrating it, and does not end')
    expect(await tablesOf(database)).toEqual([])
    await database.sql('CREATE SCHEMA app')
    await migratePostgres({
      connections: connectTo(withSearchPath(database, 'app')),
      migrations,
      now: () => NOW,
    })
    const waiting = migratePostgres({ connections, migrations, now: () => NOW })
    await release()
    await waiting
    const tables = ['cats', 'dogs', 'schema_migrations']
    expect(await tablesOf(database)).toEqual([...tables.map(name => `app.${name}`), ...tables])
  })

  test('says so if a transaction uses the tables, changes nothing, and continues once that has ended', async () => {
    const { database, connections } = await opened()
    const migrations = postgresMigrations()
    const now = () => NOW
    await migratePostgres({ connections, migrations: migrations.slice(0, 7), now })
    const release = await holding(connectTo(database.url), 'SELECT FROM users')
    onTestFinished(release)
    const attempt = migratePostgres({ connections, migrations, now })
    await expect(attempt).rejects.toMatchObject({
      name: 'UnusableDatabase',
      message:
        'its schema is not current, and a transaction uses its tables, such as that of pg_dump: migrate once that has ended',
    })
    expect(await database.sql(SELECT_HISTORY)).toHaveLength(7)
    await release()
    await migratePostgres({ connections, migrations, now })
    expect(await database.sql(SELECT_HISTORY)).toHaveLength(migrations.length)
  })

  test('makes two services of one database independent, also if each finds the other in its search path', async () => {
    const { database, connections } = await opened()
    const migrations = postgresMigrations()
    await database.sql('CREATE SCHEMA app')
    await migratePostgres({ connections, migrations, now: () => NOW })
    const inApp = connectTo(withSearchPath(database, 'app,public'))
    await migratePostgres({ connections: inApp, migrations, now: () => NOW })
    const insert = `INSERT INTO app.users (name, name_lower, email, created_at, updated_at)
      VALUES ('Ann', 'ann', 'ann@example.com', '${NOON}', '${NOON}')`
    await database.sql(insert)
    const counts = `SELECT (SELECT sum(user_count) FROM app.users_summary) AS app,
      (SELECT sum(user_count) FROM public.users_summary) AS public`
    expect(await database.sql(counts)).toEqual([{ app: '1', public: '0' }])
  })

  test('needs no right to change the schema if nothing is pending, and says so otherwise', async () => {
    const { database, connections } = await opened()
    const url = await asServingRole(database.url)
    const restricted = connectTo(url)
    const migrations = postgresMigrations()
    await expect(
      migratePostgres({ connections: restricted, migrations, now: () => NOW }),
    ).rejects.toThrow(
      'this role may not change it: run `migrate` with the role that owns the tables',
    )
    await migratePostgres({ connections, migrations, now: () => NOW })
    await migratePostgres({ connections: restricted, migrations, now: () => NOW })
    expect((await openSigningKeys(restricted)).get('cursor')).toHaveLength(32)
  })

  test.each([
    {
      history: 'a migration that this release lacks',
      change: `INSERT INTO schema_migrations VALUES (3, '0003_birds', 'x', 'y')`,
      refusal: 'its schema version 3 is from a newer release: this release knows only 2',
    },
    {
      history: 'another hash of a migration',
      change: `UPDATE schema_migrations SET hash = 'x' WHERE version = 1`,
      refusal: 'its migration 0001_cats differs from the one in this release',
    },
  ])('rejects a history with $history', async ({ change, refusal }) => {
    const { database, connections } = await opened()
    const migrations = twoMigrations()
    await migratePostgres({ connections, migrations, now: () => NOW })
    await database.sql(change)
    const attempts = [
      () => migratePostgres({ connections, migrations, now: () => NOW }),
      () => requireMigrated(connections, migrations),
      () => postgresMigrationStatus(connections, migrations),
    ]
    for (const attempt of attempts) {
      const error = await attempt().catch(thrown => thrown)
      expect(error).toBeInstanceOf(MigrationMismatch)
      expect(error.message).toBe(refusal)
    }
  })

  test.each([
    ['a table users', 'CREATE TABLE users (id int)'],
    ['the history of another program', 'CREATE TABLE schema_migrations (version text)'],
    [
      'an index of ours',
      'CREATE TABLE cats (name text); CREATE INDEX users_by_name ON cats (name)',
    ],
    [
      'a function of ours',
      `CREATE FUNCTION note_inserted_users() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'`,
    ],
  ])('rejects the database of another program with %s, and leaves it as it was', async (_, sql) => {
    const { database, connections } = await opened()
    await database.sql(sql)
    const before = await tablesOf(database)
    await expect(
      migratePostgres({ connections, migrations: postgresMigrations(), now: () => NOW }),
    ).rejects.toMatchObject({
      name: 'UnusableDatabase',
      message: 'it is the database of another program',
      isFault: true,
    })
    expect((await tablesOf(database)).filter(name => !before.includes(name))).toEqual([])
  })

  test('takes a schema that has other tables', async () => {
    const { database, connections } = await opened()
    await database.sql('CREATE TABLE spatial_ref_sys (srid int)')
    await migratePostgres({ connections, migrations: postgresMigrations(), now: () => NOW })
  })

  test('rejects a database whose encoding is not UTF8', async () => {
    const { connections } = await opened(`ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`)
    await expect(
      migratePostgres({ connections, migrations: postgresMigrations(), now: () => NOW }),
    ).rejects.toThrow(
      `its encoding is SQL_ASCII: create it again with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    )
  })

  test('rejects a server that is too old', async () => {
    const { connections } = await opened()
    const old: Connections = {
      ...connections,
      read: work => work({ query: async () => [[120_004, '12.4', 'UTF8', 'public']] as never }),
    }
    const attempt = migratePostgres({ connections: old, migrations: [], now: () => NOW })
    await expect(attempt).rejects.toThrow(UnusableDatabase)
    await expect(attempt).rejects.toThrow(
      'its server is PostgreSQL 12.4: this release needs 13 or newer',
    )
  })

  test('rejects a search_path without a schema', async () => {
    const { database } = await opened()
    const connections = connectTo(withSearchPath(database, 'nowhere'))
    await expect(
      migratePostgres({ connections, migrations: twoMigrations(), now: () => NOW }),
    ).rejects.toThrow('no schema of its search_path exists for this role')
  })

  test('makes functions that no temporary table can mislead', async () => {
    const { database, connections } = await opened()
    await migratePostgres({ connections, migrations: postgresMigrations(), now: () => NOW })
    const settings = await database.sql(`
      SELECT DISTINCT unnest(proconfig) AS setting FROM pg_proc WHERE pronamespace = 'public'::regnamespace`)
    expect(settings).toEqual([{ setting: 'search_path=public, pg_temp' }])
  })
})

type TestDatabase = Awaited<ReturnType<typeof opened>>['database']

async function opened(createOptions?: string) {
  const url = await newPostgresDatabase(createOptions)
  const sql = (text: string) => queryPostgres(url, text)
  return { database: { url, sql }, connections: connectTo(url) }
}

function withSearchPath({ url }: TestDatabase, path: string): string {
  return `${url}?options=${encodeURIComponent(`-c search_path=${path}`)}`
}

/** Runs SQL in a transaction that stays open until the returned function is called. */
async function holding(connections: Connections, sql: string): Promise<() => Promise<void>> {
  let end = () => {}
  let isHeld = false
  const hold = async (session: Session) => {
    await session.query({ text: sql })
    isHeld = true
    await new Promise<void>(resolve => {
      end = resolve
    })
  }
  const held = connections.transaction(hold, { isLong: true })
  await until(() => isHeld)
  return async () => {
    end()
    await held
  }
}

function twoMigrations() {
  return migrationFiles({ '0001_cats.sql': CREATE_CATS, '0002_dogs.sql': CREATE_DOGS })
}

/** Calls `readMigrations` on a folder with these files. */
function migrationFiles(contents: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(temporaryFolder(), 'migrations-'))
  for (const [file, sql] of Object.entries(contents)) writeFileSync(join(folder, file), sql)
  return readMigrations(pathToFileURL(`${folder}/`))
}

async function tablesOf(database: TestDatabase): Promise<string[]> {
  const rows = await database.sql(SELECT_TABLES)
  return rows.map(({ name }) => String(name).replace('public.', ''))
}
