import { describe, expect, test } from 'vitest'
import { type Migration, MigrationMismatch } from '../../../src/storage/migrations.ts'
import type { Connections } from '../../../src/storage/postgres/postgres-connections.ts'
import {
  migratePostgres,
  postgresMigrationStatus,
  postgresMigrations,
  requireMigrated,
} from '../../../src/storage/postgres/postgres-migrator.ts'
import { openSigningKeys } from '../../../src/storage/postgres/postgres-signing-keys.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import {
  asServingRole,
  connectTo,
  holdOpen,
  insertUser,
} from '../../support/postgres-connections.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'

const NOON = '2026-01-31T12:00:00.000Z'

const CATS: Migration = {
  version: 1,
  name: '0001_cats',
  sql: 'CREATE TABLE cats (name text);',
  hash: 'hash of cats',
}

const DOGS: Migration = {
  version: 2,
  name: '0002_dogs',
  sql: 'CREATE TABLE dogs (name text); CREATE INDEX dogs_name ON dogs (name);',
  hash: 'hash of dogs',
}

const BOTH = ['cats', 'dogs', 'schema_migrations']

const UNUSABLE = { name: 'UnusableDatabase' }

async function opened(createOptions?: string) {
  const url = await newPostgresDatabase(createOptions)
  const sql = (text: string) => queryPostgres(url, text)
  return {
    url,
    sql,
    connections: connectTo(url),
    history: () => sql('SELECT * FROM schema_migrations ORDER BY version'),
    tables: async () => {
      const rows = await sql(
        `SELECT schemaname || '.' || tablename AS name FROM pg_tables
         WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`,
      )
      return rows.map(({ name }) => String(name).replace('public.', ''))
    },
    /** Connections with another search path. */
    inPath: (path: string) =>
      connectTo(`${url}?options=${encodeURIComponent(`-c search_path=${path}`)}`),
  }
}

/** Applies the given migrations, or all of this release, at noon. */
function migrate(connections: Connections, migrations = postgresMigrations(), patienceMs?: number) {
  const now = () => Date.parse(NOON)
  const patience = patienceMs === undefined ? {} : { patienceMs }
  return migratePostgres({ connections, migrations, now, ...patience })
}

describe('migratePostgres', () => {
  test('applies what is missing once, and stores when', async () => {
    const { connections, tables, history } = await opened()
    await migrate(connections, [CATS])
    expect(await postgresMigrationStatus(connections, [CATS, DOGS])).toEqual([
      { name: '0001_cats', appliedAt: NOON },
      { name: '0002_dogs', appliedAt: undefined },
    ])
    await expect(requireMigrated(connections, [CATS, DOGS])).rejects.toThrow(
      'its schema is that of an older release: run `migrate`',
    )
    const now = () => Date.parse(NOON) + 1000
    const later = '2026-01-31T12:00:01.000Z'
    await migratePostgres({ connections, migrations: [CATS, DOGS], now })
    await migrate(connections, [CATS, DOGS])
    await requireMigrated(connections, [CATS, DOGS])
    expect(await tables()).toEqual(BOTH)
    expect(await history()).toEqual([
      { version: 1, name: '0001_cats', hash: CATS.hash, applied_at: NOON },
      { version: 2, name: '0002_dogs', hash: DOGS.hash, applied_at: later },
    ])
  })

  test('undoes a failing migration, keeps those before it, and continues once it is fixed', async () => {
    const { connections, tables } = await opened()
    const broken = { ...DOGS, sql: `${DOGS.sql} INSERT INTO birds VALUES (1);` }
    await expect(migrate(connections, [CATS, broken])).rejects.toThrow(
      'relation "birds" does not exist',
    )
    expect(await tables()).toEqual(['cats', 'schema_migrations'])
    await migrate(connections, [CATS, DOGS])
    expect(await tables()).toEqual(BOTH)
  })

  test('called by several processes at the same time applies each migration once', async () => {
    const { url, history } = await opened()
    await Promise.all(Array.from({ length: 6 }, () => migrate(connectTo(url))))
    expect(await history()).toHaveLength(postgresMigrations().length)
  })

  test('waits for another process that migrates, but not for another schema, and not for ever', async () => {
    const { url, sql, connections, tables, inPath } = await opened()
    const key = `hashtextextended('schema_migrations of public', 0)`
    const other = await holdOpen(url, `SELECT pg_advisory_xact_lock(${key})`)
    await expect(migrate(connections, [CATS, DOGS], 1)).rejects.toThrow(
      'another process is migrating it, and does not end',
    )
    expect(await tables()).toEqual([])
    await sql('CREATE SCHEMA app')
    await migrate(inPath('app'), [CATS, DOGS])
    const waiting = migrate(connections, [CATS, DOGS])
    await other.query('COMMIT')
    await waiting
    expect(await tables()).toEqual([...BOTH.map(name => `app.${name}`), ...BOTH])
  })

  test('says so if a transaction uses the tables, changes nothing, and continues once that has ended', async () => {
    const { url, connections, history } = await opened()
    await migrate(connections, postgresMigrations().slice(0, 7))
    const holder = await holdOpen(url, 'SELECT FROM users')
    await expect(migrate(connections)).rejects.toMatchObject({
      ...UNUSABLE,
      message:
        'its schema is not current, and a transaction uses its tables, such as that of pg_dump: migrate once that has ended',
    })
    expect(await history()).toHaveLength(7)
    await holder.query('COMMIT')
    await migrate(connections)
    expect(await history()).toHaveLength(postgresMigrations().length)
  })

  test('makes two services of one database independent, also if each finds the other in its search path', async () => {
    const { sql, connections, inPath } = await opened()
    await sql('CREATE SCHEMA app')
    await migrate(connections)
    await migrate(inPath('app,public'))
    await sql(insertUser('ann@example.com').replace('users', 'app.users'))
    const counts = `SELECT (SELECT sum(user_count) FROM app.users_summary) AS app,
      (SELECT sum(user_count) FROM public.users_summary) AS public`
    expect(await sql(counts)).toEqual([{ app: '1', public: '0' }])
  })

  test('needs no right to change the schema if nothing is pending, and says so otherwise', async () => {
    const { url, connections } = await opened()
    const restricted = connectTo(await asServingRole(url))
    await expect(migrate(restricted)).rejects.toThrow(
      'this role may not change it: run `migrate` with the role that owns the tables',
    )
    await migrate(connections)
    await migrate(restricted)
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
    const { sql, connections } = await opened()
    await migrate(connections, [CATS, DOGS])
    await sql(change)
    for (const attempt of [migrate, requireMigrated, postgresMigrationStatus]) {
      const refused = attempt(connections, [CATS, DOGS])
      await expect(refused).rejects.toThrow(new MigrationMismatch(refusal))
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
  ])(
    'rejects the database of another program with %s, and leaves it as it was',
    async (_, text) => {
      const { sql, connections, tables } = await opened()
      await sql(text)
      const before = await tables()
      await expect(migrate(connections)).rejects.toMatchObject({
        ...UNUSABLE,
        message: 'it is the database of another program',
        isFault: true,
      })
      expect(await tables()).toEqual(before)
    },
  )

  test('takes a schema that has other tables', async () => {
    const { sql, connections } = await opened()
    await sql('CREATE TABLE spatial_ref_sys (srid int)')
    await migrate(connections)
  })

  test('rejects a database whose encoding is not UTF8', async () => {
    const { connections } = await opened(`ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`)
    await expect(migrate(connections)).rejects.toThrow(
      `its encoding is SQL_ASCII: create it again with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    )
  })

  test('rejects a server that is too old', async () => {
    const { connections } = await opened()
    const old: Connections = {
      ...connections,
      read: work => work({ query: async () => [[120_004, '12.4', 'UTF8', 'public']] as never }),
    }
    await expect(migrate(old, [])).rejects.toMatchObject({
      ...UNUSABLE,
      message: 'its server is PostgreSQL 12.4: this release needs 13 or newer',
    })
  })

  test('rejects a search_path without a schema', async () => {
    const { inPath } = await opened()
    await expect(migrate(inPath('nowhere'), [CATS])).rejects.toThrow(
      'no schema of its search_path exists for this role',
    )
  })

  test('gives each database a mark of its own, so that their lists have different revisions', async () => {
    const marks = []
    for (const { sql, connections } of [await opened(), await opened()]) {
      await migrate(connections)
      marks.push((await sql('SELECT mark FROM users_summary'))[0]?.mark)
    }
    expect(new Set(marks).size).toBe(2)
  })

  test('makes functions that no temporary table can mislead', async () => {
    const { sql, connections } = await opened()
    await migrate(connections)
    const settings = await sql(`
      SELECT DISTINCT unnest(proconfig) AS setting FROM pg_proc WHERE pronamespace = 'public'::regnamespace`)
    expect(settings).toEqual([{ setting: 'search_path=public, pg_temp' }])
  })
})
