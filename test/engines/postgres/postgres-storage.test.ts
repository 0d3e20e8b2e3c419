import { expect, onTestFinished, test } from 'vitest'
import { totalOf } from '../../../src/metrics/histogram.ts'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import { describeStorage, openStored } from '../../contracts/storage-contract.ts'
import { describeStorageReport } from '../../contracts/storage-report-contract.ts'
import { connectToPostgres } from '../../support/postgres-client.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { executeSql, selectRows } from '../../support/sql.ts'

const NEWEST = 'SELECT max(version) FROM schema_migrations'

const MARK_COPY = `INSERT INTO unfinished_copies (singleton) VALUES (1)`

const newUser = (email: string) => ({ name: 'Ann', email, passwordDigest: null })

/** What is inserted violates a constraint that is checked in COMMIT. */
const FAIL_AT_COMMIT = `
  CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'fails in COMMIT'; END $$;
  CREATE CONSTRAINT TRIGGER fail_users AFTER INSERT ON users
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail();
  CREATE CONSTRAINT TRIGGER fail_bans AFTER INSERT ON bans
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`

/** The connection of the first two who insert a user ends in COMMIT. A sequence is not rolled back. */
const LOSE_TWO_COMMITS = `
  CREATE SEQUENCE commits;
  CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('commits') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END IF;
    RETURN NULL;
  END $$;
  CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON users
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose()`

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
        executeSql(url, `DELETE FROM schema_migrations WHERE version = (${NEWEST})`),
      markCopy: () => executeSql(url, MARK_COPY),
    }
  },
})

describeStorageReport({
  name: 'PostgreSQL',
  open: async () => {
    const databaseUrl = await newPostgresDatabase()
    const engine = createPostgresEngine(locationOf(databaseUrl))
    const storage = await openStored(engine, { maxWaitingWrites: 1000 })
    return { storage, databaseUrl }
  },
})

test('report answers while the server is away, and keeps its counts', async () => {
  const cluster = await createPostgresCluster()
  onTestFinished(cluster.remove)
  const { users, report } = await openStored(createPostgresEngine(locationOf(cluster.url())))
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
})

test('report counts a write that waited alone for a lock once, in a commit of its own', async () => {
  const url = await newPostgresDatabase()
  const { users, report } = await openStored(createPostgresEngine(locationOf(url)))
  const [ann, bob] = await Promise.all([
    users.create(newUser('ann@example.com')),
    users.create(newUser('bob@example.com')),
  ])
  const holder = await connectToPostgres(url)
  onTestFinished(() => holder.end())
  await holder.query(`BEGIN; SELECT FROM users WHERE id = ${ann.id} FOR UPDATE`)
  const held = users.update(ann.id, { name: 'Eve' })
  await users.update(bob.id, { name: 'Rob' })
  const before = await report()
  expect(before.waitingWrites).toBe(1)
  expect(before.commits?.writes.sum).toBe(3)
  await holder.query('ROLLBACK')
  await held
  const { commits, waitingWrites } = await report()
  expect([commits?.writes.sum, commits && totalOf(commits.seconds), waitingWrites]).toEqual([
    4, 3, 0,
  ])
})

test('report does not count what fails in COMMIT, together with others or on its own', async () => {
  const url = await newPostgresDatabase()
  const { users, bans, report } = await openStored(createPostgresEngine(locationOf(url)))
  await executeSql(url, FAIL_AT_COMMIT)
  const ban = { rule: 'login', clientKey: 'ann', endsAt: Date.now() + 60_000, lastsMs: 60_000 }
  const results = await Promise.allSettled([
    users.create(newUser('ann@example.com')),
    users.create(newUser('bob@example.com')),
    bans.save(ban),
  ])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  const { commits, waitingWrites } = await report()
  expect([commits?.writes.sum, commits && totalOf(commits.seconds), waitingWrites]).toEqual([
    0, 0, 0,
  ])
})

test('report counts a write once whose connection was lost in COMMIT, and which was repeated', async () => {
  const url = await newPostgresDatabase()
  const { users, report } = await openStored(createPostgresEngine(locationOf(url)))
  await executeSql(url, LOSE_TWO_COMMITS)
  await users.create(newUser('ann@example.com'))
  expect(await selectRows(url, 'SELECT last_value FROM commits')).toEqual([{ last_value: 3 }])
  const { commits } = await report()
  expect([commits?.writes.sum, commits && totalOf(commits.seconds)]).toEqual([1, 1])
})

test('ownsFile is true for no file, because the files belong to the server', () => {
  const { ownsFile } = createPostgresEngine(locationOf('postgres://db.example/users'))
  expect([ownsFile('users'), ownsFile('data/users.db')]).toEqual([false, false])
})
