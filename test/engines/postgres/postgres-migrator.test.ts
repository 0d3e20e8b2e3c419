import { expect, test } from 'vitest'
import { migrationsFor } from '../../../src/storage/migrations.ts'
import type { Connections } from '../../../src/storage/postgres/postgres-connections.ts'
import { migratePostgres } from '../../../src/storage/postgres/postgres-migrator.ts'
import { CATS, DOGS, describeMigrator, migrationsOf } from '../../contracts/migrator-contract.ts'
import {
  asServingRole,
  connectTo,
  holdOpen,
  insertUser,
} from '../../support/postgres-connections.ts'
import { newPostgresDatabase, queryPostgres } from '../../support/postgres-databases.ts'

const UNUSABLE = { name: 'UnusableDatabase' }

async function opened(createOptions?: string) {
  const url = await newPostgresDatabase(createOptions)
  const sql = (text: string) => queryPostgres(url, text)
  return {
    ...{ url, sql, connections: connectTo(url) },
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

/** Applies the given migrations, or all of this release. */
function migrate(connections: Connections, migrations = migrationsFor('postgres'), patience = {}) {
  return migratePostgres({ connections, migrations, now: Date.now, ...patience })
}

describeMigrator('PostgreSQL', async () => {
  const { connections, ...database } = await opened()
  return {
    ...database,
    migrate: (migrations, now) => migratePostgres({ connections, migrations, now }),
  }
})

test('migrate waits for another process that migrates, but not for another schema, and not for ever', async () => {
  const { url, sql, connections, tables, inPath } = await opened()
  const both = migrationsOf(CATS, DOGS)
  const key = `hashtextextended('schema_migrations of public', 0)`
  const other = await holdOpen(url, `SELECT pg_advisory_xact_lock(${key})`)
  await expect(migrate(connections, both, { patienceMs: 1 })).rejects.toThrow(
    'another process is migrating it, and does not end',
  )
  expect(await tables()).toEqual([])
  await sql('CREATE SCHEMA app')
  await migrate(inPath('app'), both)
  const waiting = migrate(connections, both)
  await other.query('COMMIT')
  await waiting
  const names = ['cats', 'dogs', 'schema_migrations']
  expect(await tables()).toEqual([...names.map(name => `app.${name}`), ...names])
})

test('migrate says so if a transaction uses the tables, changes nothing, and continues once that has ended', async () => {
  const { url, connections, history } = await opened()
  const both = migrationsOf(CATS, 'LOCK TABLE cats IN SHARE ROW EXCLUSIVE MODE')
  await migrate(connections, both.slice(0, 1))
  const holder = await holdOpen(url, 'LOCK TABLE cats IN ROW EXCLUSIVE MODE')
  await expect(migrate(connections, both)).rejects.toMatchObject({
    ...UNUSABLE,
    message:
      'its schema is not current, and a transaction uses its tables, such as that of pg_dump: migrate once that has ended',
  })
  expect(await history()).toHaveLength(1)
  await holder.query('COMMIT')
  await migrate(connections, both)
  expect(await history()).toHaveLength(2)
})

test('two services of one database are independent, also if each finds the other in its search path', async () => {
  const { sql, connections, inPath } = await opened()
  await sql('CREATE SCHEMA app; CREATE TABLE spatial_ref_sys (srid int)')
  await migrate(connections)
  await migrate(inPath('app,public'))
  await sql(insertUser('ann@example.com').replace('users', 'app.users'))
  const counts = `SELECT (SELECT sum(user_count) FROM app.users_summary) AS app,
    (SELECT sum(user_count) FROM public.users_summary) AS public`
  expect(await sql(counts)).toEqual([{ app: '1', public: '0' }])
  const [marks] = await sql(
    'SELECT a.mark AS one, b.mark AS other FROM app.users_summary a, public.users_summary b',
  )
  expect(marks?.one).not.toBe(marks?.other)
})

test('migrate needs no right to change the schema if nothing is pending, and says so otherwise', async () => {
  const { url, connections } = await opened()
  const restricted = connectTo(await asServingRole(url))
  await expect(migrate(restricted)).rejects.toThrow(
    'this role may not change it: run `migrate` with the role that owns the tables',
  )
  await migrate(connections)
  await migrate(restricted)
})

test('migrate rejects another program’s database with an index of its own, and leaves it as it was', async () => {
  const { sql, connections, tables } = await opened()
  await sql('CREATE TABLE cats (name text); CREATE INDEX users_by_name ON cats (name)')
  const before = await tables()
  const message = 'it is the database of another program'
  await expect(migrate(connections)).rejects.toMatchObject({ ...UNUSABLE, message, isFault: true })
  expect(await tables()).toEqual(before)
})

test('migrate rejects each table of its own in another program’s database, before it changes anything', async () => {
  const { sql, connections, tables } = await opened()
  const created = migrationsFor('postgres').flatMap(
    each => each.sql.match(/CREATE TABLE \w+/g) ?? [],
  )
  expect(created).toContain('CREATE TABLE users')
  for (const statement of created) {
    await sql(`${statement} (id int)`)
    const [table, ...others] = await tables()
    await expect(migrate(connections), table).rejects.toMatchObject(UNUSABLE)
    expect([others, await tables()]).toEqual([[], [table]])
    await sql(`DROP TABLE ${table}`)
  }
})

test('migrate rejects another encoding, a server that is too old, and a search_path without a schema', async () => {
  const ascii = await opened(`ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`)
  await expect(migrate(ascii.connections)).rejects.toThrow(
    `its encoding is SQL_ASCII: create it again with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
  )
  const { connections, inPath } = await opened()
  const old: Connections = {
    ...connections,
    snapshot: work => work({ query: async () => [[120_004, '12.4', 'UTF8', 'public']] as never }),
  }
  const message = 'its server is PostgreSQL 12.4: this release needs 13 or newer'
  await expect(migrate(old, [])).rejects.toMatchObject({ ...UNUSABLE, message })
  await expect(migrate(inPath('nowhere'))).rejects.toThrow(
    'no schema of its search_path exists for this role',
  )
})

test('makes functions that no temporary table can mislead', async () => {
  const { sql, connections } = await opened()
  await migrate(connections)
  const settings = await sql(`
    SELECT DISTINCT unnest(proconfig) AS setting FROM pg_proc WHERE pronamespace = 'public'::regnamespace`)
  expect(settings).toEqual([{ setting: 'search_path=public, pg_temp' }])
})
