import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { totalOf } from '../../../src/metrics/histogram.ts'
import { openSigningKeys } from '../../../src/storage/postgres/postgres-signing-keys.ts'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import type { Storage } from '../../../src/storage/storage.ts'
import { describeStorage } from '../../contracts/storage-contract.ts'
import { describeStorageReport } from '../../contracts/storage-report-contract.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { connectTo, holdOpen, openStorage } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { canStartClusters } from '../../support/postgres-settings.ts'
import { executeSql, selectRows } from '../../support/sql.ts'

describeStorage({
  name: 'PostgreSQL',
  newDatabase: async () => {
    const url = await newPostgresDatabase()
    return {
      engine: createPostgresEngine(locationOf(url)),
      exists: async () => {
        const [row] = await selectRows(url, `SELECT to_regclass('users') AS users`)
        return row?.users !== null
      },
      emails: async () => {
        const rows = await selectRows(url, 'SELECT email FROM users ORDER BY id')
        return rows.map(({ email }) => String(email))
      },
      forgetMigration: () =>
        executeSql(
          url,
          'DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)',
        ),
      markCopy: () => executeSql(url, 'INSERT INTO unfinished_copies (singleton) VALUES (1)'),
    }
  },
})

describeStorageReport({
  name: 'PostgreSQL',
  open: async () => {
    const databaseUrl = await copyPostgresTemplate()
    return { storage: await openStorage(databaseUrl), databaseUrl }
  },
})

test('processes that open a database at the same time have the same signing key', async () => {
  const url = await copyPostgresTemplate()
  const [one, other] = await Promise.all([1, 2].map(() => openSigningKeys(connectTo(url))))
  expect(one?.get('cursor')).toHaveLength(32)
  expect(other).toEqual(one)
})

const newUser = (email: string) => ({ name: 'Ann', email, passwordDigest: null })

/** What a report counts: writes, commits, and writes that wait. */
async function countsOf({ report }: Storage) {
  const { commits, waitingWrites } = await report()
  return [commits?.writes.sum, commits && totalOf(commits.seconds), waitingWrites]
}

test.skipIf(!canStartClusters)(
  'report answers while the server is away, and keeps its counts',
  async () => {
    const cluster = await createPostgresCluster()
    onTestFinished(cluster.remove)
    const { users, report } = await openStorage(cluster.url())
    await users.create(newUser('ann@example.com'))
    const { commits } = await report()
    await cluster.kill()
    const refused = users.create(newUser('bob@example.com'))
    expect((await report()).waitingWrites).toBe(1)
    // The latter if it was sent before this process has noticed that the server is gone.
    const codes = /^(storage_unavailable|outcome_unknown)$/
    await expect(refused).rejects.toMatchObject({ code: expect.stringMatching(codes) })
    expect(await report()).toEqual({
      engine: 'postgres',
      waitingWrites: 0,
      commits,
      connections: { active: 0, idle: expect.any(Number), waiting: 0 },
    })
  },
)

test('report counts a write that waited alone for a lock once, in a commit of its own', async () => {
  const url = await copyPostgresTemplate()
  const storage = await openStorage(url)
  const { users } = storage
  const [ann, bob] = await Promise.all([
    users.create(newUser('ann@example.com')),
    users.create(newUser('bob@example.com')),
  ])
  const holder = await holdOpen(url, `SELECT FROM users WHERE id = ${ann.id} FOR UPDATE`)
  const held = users.update(ann.id, { name: 'Eve' })
  await users.update(bob.id, { name: 'Rob' })
  expect(await countsOf(storage)).toEqual([3, 2, 1])
  await holder.query('ROLLBACK')
  await held
  expect(await countsOf(storage)).toEqual([4, 3, 0])
})

test('report does not count what fails in COMMIT, together with others or on its own', async () => {
  const url = await copyPostgresTemplate()
  const storage = await openStorage(url)
  await executeSql(
    url,
    `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN RAISE EXCEPTION 'fails in COMMIT'; END $$;
     CREATE CONSTRAINT TRIGGER fail_users AFTER INSERT ON users
       DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail();
     CREATE CONSTRAINT TRIGGER fail_bans AFTER INSERT ON bans
       DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`,
  )
  const ban = { rule: 'login', clientKey: 'ann', endsAt: Date.now() + 60_000, lastsMs: 60_000 }
  const results = await Promise.allSettled([
    storage.users.create(newUser('ann@example.com')),
    storage.users.create(newUser('bob@example.com')),
    storage.bans.save(ban),
  ])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(await countsOf(storage)).toEqual([0, 0, 0])
})

test('report counts a write once whose connection was lost in COMMIT, and which was repeated', async () => {
  const url = await copyPostgresTemplate()
  const storage = await openStorage(url)
  // A sequence is not rolled back.
  await executeSql(
    url,
    `CREATE SEQUENCE commits;
     CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF nextval('commits') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END IF;
       RETURN NULL;
     END $$;
     CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON users
       DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose()`,
  )
  await storage.users.create(newUser('ann@example.com'))
  expect(await selectRows(url, 'SELECT last_value FROM commits')).toEqual([{ last_value: 3 }])
  expect(await countsOf(storage)).toEqual([1, 1, 0])
})

test('an error of the server quotes no row', async () => {
  const url = await copyPostgresTemplate()
  const { users } = await openStorage(url)
  await executeSql(url, `ALTER TABLE users ADD CONSTRAINT other CHECK (email NOT LIKE 'marker%')`)
  const user = { name: 'Marker', email: 'marker@example.com', passwordDigest: '$marker' }
  const error = await users.create(user).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: '23514', constraint: 'other' })
  expect(inspect(error)).not.toMatch(/marker/i)
})

test('ownsFile is true for no file, because the files belong to the server', () => {
  const { ownsFile } = createPostgresEngine(locationOf('postgres://db.example/users'))
  expect([ownsFile('users'), ownsFile('data/users.db')]).toEqual([false, false])
})
