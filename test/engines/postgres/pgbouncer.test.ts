import { describe, expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { startPgBouncer, whyNoPgBouncer } from '../../support/pgbouncer.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { connectTo, holdOpen, insertUser, openStorage } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../support/postgres-databases.ts'
import { runCommand } from '../../support/run-command.ts'
import { until } from '../../support/until.ts'

const reason = whyNoPgBouncer()
if (reason !== undefined) console.log(`skipped: ${reason}`)

describe.skipIf(reason)('through PgBouncer in transaction pooling mode', () => {
  test('the service works, with many requests at once, and so do the commands', async () => {
    const DATABASE_URL = await startPgBouncer(await newPostgresDatabase())
    const { http } = await openTestApp({ env: { DATABASE_URL } })
    const create = (_: unknown, index: number) =>
      http.post('/users').set('Idempotency-Key', `key-${index}`).send(newUserBody()).expect(201)
    const created = await Promise.all(Array.from({ length: 200 }, create))
    const ids = created.map(({ body }) => body.id as number)
    expect(new Set(ids).size).toBe(200)
    const user = (id: number) => ({ user: { name: `N${id}` } })
    await Promise.all(ids.map(id => http.put(`/users/${id}`).send(user(id)).expect(200)))
    const found = await Promise.all(ids.map(id => http.get(`/users/${id}`).expect(200)))
    expect(found.map(({ body }) => body.name)).toEqual(ids.map(id => `N${id}`))
    const list = (page: number) =>
      http.get(`/users?per_page=7&page=${page}&sort=-name&count=true`).expect(200)
    const lists = await Promise.all(ids.map((_, index) => list(1 + (index % 20))))
    expect(new Set(lists.map(({ headers }) => headers['x-total-count']))).toEqual(new Set(['200']))
    await Promise.all(ids.map(id => http.delete(`/users/${id}`).expect(204)))

    const run = (args: string[], input = '') =>
      runCommand({ cwd: temporaryFolder(), env: { DATABASE_URL }, args, input })
    const ann = '{"name":"Ann","email":"ann@example.com"}\n'
    expect(await run(['import', '-'], ann)).toMatchObject({ code: 0 })
    expect(JSON.parse((await run(['export'])).stdout)).toMatchObject({ name: 'Ann' })
    for (const command of ['migrate', 'check']) {
      expect(await run([command])).toMatchObject({ code: 0 })
    }
  })

  test('processes see the bans of each other', async () => {
    const url = await startPgBouncer(await copyPostgresTemplate())
    const [store, other] = [(await openStorage(url)).bans, (await openStorage(url)).bans]
    const before = await other.revision()
    const own = await store.revision()
    // Many, so that PgBouncer uses several sessions of the server.
    const ban = { rule: 'login', endsAt: Date.now() + 1e6, lastsMs: 1e6 }
    const keys = Array.from({ length: 20 }, (_, index) => `${index}`)
    await Promise.all(keys.map(clientKey => store.save({ ...ban, clientKey })))
    expect(await other.revision()).not.toBe(before)
    expect(await store.revision()).toBe(own)
    expect(await other.lift({ rule: 'login' })).toHaveLength(20)
    expect(await store.revision()).not.toBe(own)
  })

  test('a held lock ends with 503 and leaves no settings in its sessions', async () => {
    const direct = await copyPostgresTemplate()
    const DATABASE_URL = await startPgBouncer(direct)
    const { http } = await openTestApp({ env: { DATABASE_URL }, users: [newUserBody()] })
    const holder = await holdOpen(direct, 'UPDATE users SET created_at = created_at')
    const rename = () => http.put('/users/1').send({ user: { name: 'Bea' } })
    await rename().expect(503)
    await holder.query('COMMIT')
    await rename().expect(200)
    const shown = await Promise.all(
      Array.from({ length: 6 }, () => queryPostgres(DATABASE_URL, 'SHOW lock_timeout')),
    )
    expect(shown.flat()).toEqual(Array(6).fill({ lock_timeout: '0' }))
  })

  test('a commit during which PgBouncer drops the connection may have been done', async () => {
    const direct = await copyPostgresTemplate()
    const url = await startPgBouncer(direct)
    await queryPostgres(
      direct,
      `CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';
       CREATE CONSTRAINT TRIGGER slow_commits AFTER INSERT ON users DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION sleep()`,
    )
    const insert = insertUser('ann@example.com')
    const written = expect(
      connectTo(url).transaction(session => session.query({ text: insert })),
    ).rejects.toMatchObject({ code: 'outcome_unknown' })
    const sleeping = `
      SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
    await until(async () => (await queryPostgres(direct, sleeping)).length > 0)
    const admin = new URL(url)
    const database = admin.pathname.slice(1)
    admin.pathname = 'pgbouncer'
    await queryPostgres(admin.href, `KILL ${database}`)
    await written
    await until(async () => (await queryPostgres(direct, 'SELECT FROM users')).length === 1)
  })
})
