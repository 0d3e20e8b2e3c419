import { expect, test } from 'vitest'
import { createClosing } from '../../../src/storage/postgres/batches.ts'
import { createPostgresBanStore } from '../../../src/storage/postgres/postgres-ban-store.ts'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { startPgBouncer, whyNoPgBouncer } from '../../support/pgbouncer.ts'
import { connectToPostgres, queryPostgres } from '../../support/postgres-client.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../support/postgres-databases.ts'
import { run } from '../../support/spawn-service.ts'
import { untilPasses } from '../../support/until.ts'

const reason = whyNoPgBouncer()
if (reason !== undefined) console.log(`skipped: ${reason}`)

const CALLS = 200

test.skipIf(reason)(
  'the service and its commands work through PgBouncer in transaction pooling mode',
  async () => {
    const direct = await newPostgresDatabase()
    const DATABASE_URL = await startPgBouncer(direct)
    const { http } = await openTestApp({ env: { DATABASE_URL } })
    const calls = Array.from({ length: CALLS }, (_, index) => index)
    const created = await Promise.all(
      calls.map(index =>
        http.post('/users').set('Idempotency-Key', `key-${index}`).send(newUserBody()).expect(201),
      ),
    )
    const ids = created.map(({ body }) => body.id as number)
    expect(new Set(ids).size).toBe(CALLS)
    await Promise.all(
      ids.map(id =>
        http
          .put(`/users/${id}`)
          .send({ user: { name: `N${id}` } })
          .expect(200),
      ),
    )
    const found = await Promise.all(ids.map(id => http.get(`/users/${id}`).expect(200)))
    expect(found.map(({ body }) => body.name)).toEqual(ids.map(id => `N${id}`))
    const lists = await Promise.all(
      calls.map(page =>
        http.get(`/users?per_page=7&page=${1 + (page % 20)}&sort=-name&count=true`).expect(200),
      ),
    )
    expect(lists.every(({ headers }) => headers['x-total-count'] === `${CALLS}`)).toBe(true)
    await Promise.all(ids.map(id => http.delete(`/users/${id}`).expect(204)))
    const options = { cwd: temporaryFolder(), env: { DATABASE_URL } }
    const file = {
      ...options,
      input: '{"name":"Ann","email":"ann@example.com"}\n',
      args: ['import', '-'],
    }
    expect(await run(file)).toMatchObject({ code: 0 })
    const exported = await run({ ...options, args: ['export'] })
    expect(JSON.parse(exported.stdout)).toMatchObject({ name: 'Ann' })
    expect(await run({ ...options, args: ['migrate'] })).toMatchObject({ code: 0 })
    expect(await run({ ...options, args: ['check'] })).toMatchObject({ code: 0 })
  },
)

test.skipIf(reason)('through PgBouncer, processes see the bans of each other', async () => {
  const url = await startPgBouncer(await copyPostgresTemplate())
  const [store, other] = [1, 2].map(() =>
    createPostgresBanStore({
      connections: connectTo(url),
      closing: createClosing(),
      now: Date.now,
    }),
  )
  const ban = { rule: 'login', clientKey: 'ann', endsAt: Date.now() + 1e6, lastsMs: 1e6 }
  const before = await other?.revision()
  const own = await store?.revision()
  // Many, so that PgBouncer uses several sessions of the server.
  await Promise.all(
    Array.from({ length: 20 }, (_, index) => store?.save({ ...ban, clientKey: `${index}` })),
  )
  expect(await other?.revision()).not.toBe(before)
  expect(await store?.revision()).toBe(own)
  const lifted = await other?.lift({ rule: 'login' })
  expect(lifted).toHaveLength(20)
  expect(await store?.revision()).not.toBe(own)
})

test.skipIf(reason)(
  'through PgBouncer, a held lock ends with 503 and leaves no settings in its sessions',
  async () => {
    const direct = await newPostgresDatabase()
    const DATABASE_URL = await startPgBouncer(direct)
    const { http } = await openTestApp({ env: { DATABASE_URL } })
    await http.post('/users').send(newUserBody()).expect(201)
    const holder = await connectToPostgres(direct)
    await holder.query('BEGIN; UPDATE users SET created_at = created_at')
    await http
      .put('/users/1')
      .send({ user: { name: 'Bea' } })
      .expect(503)
    await holder.query('COMMIT')
    await holder.end()
    await http
      .put('/users/1')
      .send({ user: { name: 'Bea' } })
      .expect(200)
    const shown = await Promise.all(
      Array.from({ length: 6 }, () => queryPostgres(DATABASE_URL, 'SHOW lock_timeout')),
    )
    expect(new Set(shown.flat().map(({ lock_timeout: value }) => value))).toEqual(new Set(['0']))
  },
)

test.skipIf(reason)(
  'a commit during which PgBouncer drops the connection may have been done',
  async () => {
    const direct = await copyPostgresTemplate()
    const url = await startPgBouncer(direct)
    await queryPostgres(direct, SLOW_COMMITS)
    const written = expect(
      connectTo(url).transaction(session => session.query({ text: INSERT_USER })),
    ).rejects.toMatchObject({ code: 'outcome_unknown' })
    await untilPasses(async () => {
      expect(await queryPostgres(direct, SLEEPING)).not.toEqual([])
    })
    const admin = new URL(url)
    const database = admin.pathname.slice(1)
    admin.pathname = 'pgbouncer'
    await queryPostgres(admin.href, `KILL ${database}`)
    await written
    await untilPasses(async () => {
      expect(await queryPostgres(direct, 'SELECT email FROM users')).toHaveLength(1)
    })
  },
)

const INSERT_USER = `
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  VALUES ('Ann', 'ann', 'ann@example.com', '2026-01-31T12:00:00.000Z', '2026-01-31T12:00:00.000Z')`

const SLOW_COMMITS = `
  CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';
  CREATE CONSTRAINT TRIGGER slow_commits AFTER INSERT ON users DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION sleep()`

const SLEEPING = `
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
