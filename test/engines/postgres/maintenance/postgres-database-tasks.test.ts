import { describe, expect, test } from 'vitest'
import { explainCheck } from '../../../../src/storage/postgres/maintenance/client-commands.ts'
import { createPostgresDatabaseTasks } from '../../../../src/storage/postgres/maintenance/postgres-database-tasks.ts'
import {
  migratePostgres,
  postgresMigrations,
} from '../../../../src/storage/postgres/postgres-migrator.ts'
import { queryPostgres } from '../../../support/postgres-client.ts'
import { connectTo, insertUsers } from '../../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../../support/postgres-databases.ts'
import { locationOf } from '../../../support/postgres-location.ts'

async function opened() {
  const url = await copyPostgresTemplate()
  return { sql: (text: string) => queryPostgres(url, text), tasks: tasksOn(url) }
}

function tasksOn(url: string) {
  return createPostgresDatabaseTasks(locationOf(url))
}

test('a database that is not there cannot be used', async () => {
  const url = new URL(await newPostgresDatabase())
  url.pathname = '/user_records_missing'
  await expect(tasksOn(url.href).check()).rejects.toMatchObject({
    name: 'UnusableDatabase',
    message: 'the server has no such database: create it (3D000)',
  })
})

describe('what is left to programs of PostgreSQL', () => {
  const location = locationOf(
    "postgres://ann%20o'neil:secret@db.example.com:5432,[::1]:6000/users%2F1?sslmode=verify-full&sslrootcert=/etc/ca.pem",
  )
  const place = "postgres://ann%20o'\\''neil@db.example.com:5432,[::1]:6000/users%2F1"
  const ca = 'sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem'
  const tasks = createPostgresDatabaseTasks(location)
  const file = { onProgress: () => {}, file: "ann's.dump" }
  const writable = `${ca}&target_session_attrs=read-write`

  test.each<[string, () => Promise<unknown>, string]>([
    [
      'backup',
      () => tasks.backup(file),
      `PostgreSQL has its own tool for this: pg_dump --format=custom --no-owner --file='ann'\\''s.dump' '${place}?${ca}'`,
    ],
    [
      'restore',
      () => tasks.restore(file),
      `PostgreSQL has its own tool for this: pg_restore --no-owner --exit-on-error --single-transaction --dbname='${place}?${writable}' 'ann'\\''s.dump', into an empty database`,
    ],
    [
      'compact',
      () => tasks.compact({ environment: {} }),
      `autovacuum makes its free space usable again; psql '${place}?${writable}' --command='VACUUM (FULL, ANALYZE)' returns it to the file system and locks each table meanwhile`,
    ],
  ])('%s is refused with the command, which has no password', async (_, call, message) => {
    await expect(call()).rejects.toMatchObject({ name: 'UnusableDatabase', message })
  })

  test('check names the command for a superuser', () => {
    const url = `postgres://db.example.com:5432,[::1]:6000/users%2F1?${ca}&target_session_attrs=read-write`
    expect(explainCheck(location)).toBe(
      `a superuser checks the pages of its tables and indexes with pg_amcheck --install-missing --heapallindexed '${url}'`,
    )
  })

  test('without TLS the command has no parameters', async () => {
    const plain = locationOf('postgres://ann@%2Frun%2Fpg:1/users%2F1')
    await expect(createPostgresDatabaseTasks(plain).backup(file)).rejects.toThrow(
      `'postgres://ann@%2Frun%2Fpg:1/users%2F1'`,
    )
  })
})

describe('check', () => {
  test('a database in use is sound, in each state of its schema', async () => {
    const url = await newPostgresDatabase()
    const migrations = postgresMigrations()
    const connections = connectTo(url)
    const names = migrations.map(({ name }) => name)
    for (let version = 0; version <= migrations.length; version++) {
      const some = migrations.slice(0, version)
      await migratePostgres({ connections, migrations: some, now: Date.now })
      const report = await tasksOn(url).check()
      expect(report).toMatchObject({ faults: [], pending: names.slice(version) })
    }
    await queryPostgres(url, insertUsers(1, 45_000))
    expect(await tasksOn(url).check()).toMatchObject({ faults: [], pending: [] })
  })

  test('a database of another program and one of a newer release are faults', async () => {
    const url = await newPostgresDatabase()
    await queryPostgres(url, 'CREATE TABLE users (id int)')
    expect((await tasksOn(url).check()).faults).toEqual(['it is the database of another program'])
    const { sql, tasks } = await opened()
    await sql(`INSERT INTO schema_migrations VALUES (99, '0099_later', 'x', 'y')`)
    expect((await tasks.check()).faults).toEqual([
      expect.stringMatching(/^its schema version 99 is from a newer release/),
    ])
  })

  test.each([
    [
      'DROP TABLE users_words',
      ['it lacks what the migrations make: relation "users_words" does not exist'],
    ],
    [
      'ALTER TABLE users DROP COLUMN name_lower',
      ['it lacks what the migrations make: column "name_lower" does not exist'],
    ],
    [`SELECT setval('users_id_seq', 2)`, ['1 existing ids would be used again']],
    [
      'UPDATE users_summary SET user_count = user_count + 5',
      ['5 is the difference between users_summary.user_count and the number of users'],
    ],
    [
      'DELETE FROM users_summary',
      ['4 is the difference between users_summary.user_count and the number of users'],
    ],
    [
      `UPDATE users SET name_lower = 'Ann'; UPDATE users SET name = 'ÄNN' WHERE id = 1`,
      ['2 users cannot be found by their name: name_lower is not the name in lower case'],
    ],
    [
      `ALTER TABLE users DROP CONSTRAINT users_password_digest_phc;
       UPDATE users SET password_digest = 'secret' WHERE id = 2;
       ALTER TABLE users ADD CONSTRAINT users_password_digest_phc CHECK (password_digest LIKE '$%') NOT VALID`,
      ['1 users break a constraint of their table'],
    ],
    [
      `INSERT INTO idempotency_keys VALUES (decode(repeat('00', 32), 'hex'), 9, 'f', 'v', '{}', 1)`,
      ['1 answers are stored for an Idempotency-Key whose user is deleted'],
    ],
    [
      `ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_length;
       INSERT INTO signing_keys VALUES ('cursor', 'short');
       ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_length CHECK (length(key) = 32) NOT VALID`,
      ['1 keys for cursors do not have 32 bytes'],
    ],
    [
      `ALTER TABLE api_keys DROP CONSTRAINT api_keys_some_scopes;
       INSERT INTO api_keys VALUES ('web', sha256('x'), '', 1), ('ok', sha256('y'), 'users:read', 1);
       ALTER TABLE api_keys ADD CONSTRAINT api_keys_some_scopes CHECK (scopes <> '') NOT VALID`,
      ['1 API keys break a constraint of their table'],
    ],
  ])('finds the fault of %s', async (statement, faults) => {
    const { sql, tasks } = await opened()
    await sql(insertUsers(1, 3))
    await sql(statement)
    expect((await tasks.check()).faults).toEqual(faults)
  })
})
