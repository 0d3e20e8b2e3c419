import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { connectToPostgres, queryPostgres } from '../../support/postgres-client.ts'
import { until } from '../../support/until.ts'

const WAITING = `
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

const REQUESTS = [
  { method: 'get', path: '/users/1' },
  { method: 'get', path: '/users?sort=name' },
  { method: 'get', path: '/users?name=ann&count=true' },
  { method: 'put', path: '/users/1' },
  { method: 'post', path: '/users' },
  { method: 'delete', path: '/users/2' },
] as const

/** Holds the table `users`, as a migration or VACUUM FULL would. */
async function lockUsers(databaseUrl: string) {
  const holder = await connectToPostgres(databaseUrl)
  await holder.query('BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE')
  return holder
}

/** A service whose table `users` another transaction holds. */
async function openHeld() {
  const { http, databaseUrl } = await openTestApp()
  for (let nth = 0; nth < 2; nth++) await http.post('/users').send(newUserBody()).expect(201)
  const holder = await lockUsers(databaseUrl)
  onTestFinished(() => holder.end())
  const ask = () =>
    Promise.all(
      REQUESTS.map(async ({ method, path }) => {
        const request = http[method](path)
        const { status, body } = await (method === 'get' ? request : request.send(newUserBody()))
        return [status, body.reason]
      }),
    )
  return { ask, holder, databaseUrl }
}

test('a lock on the table that is free in time delays requests, and fails none', async () => {
  const { ask, holder, databaseUrl } = await openHeld()
  const answers = ask()
  await until(async () => (await queryPostgres(databaseUrl, WAITING)).length >= 3)
  await holder.query('COMMIT')
  expect((await answers).map(([status]) => status)).toEqual([200, 200, 200, 200, 201, 204])
})

test('a lock on the table that is not free in time is answered with 503', async () => {
  const { ask, holder } = await openHeld()
  expect(await ask()).toEqual(REQUESTS.map(() => [503, 'storage_unavailable']))
  await holder.query('COMMIT')
  expect((await ask()).map(([status]) => status)).toEqual([200, 200, 200, 200, 201, 204])
})

test('what does not read the table does not wait behind requests that do', async () => {
  const { http, databaseUrl } = await openTestApp()
  const create = () =>
    http
      .post('/users')
      .set('Idempotency-Key', 'only-once')
      .send({ user: { name: 'Ann', email: 'ann@example.com' } })
  await create().expect(201)
  const { headers } = await http.get('/users').expect(200)
  const holder = await lockUsers(databaseUrl)
  onTestFinished(() => holder.end())
  // Each is a statement of its own.
  const lists = Promise.all(
    Array.from({ length: 12 }, (_, index) => http.get(`/users?per_page=${index + 1}`).expect(503)),
  )
  await until(async () => (await queryPostgres(databaseUrl, WAITING)).length >= 2)
  await Promise.all([
    http.get('/users').set('If-None-Match', String(headers.etag)).expect(304),
    create().expect(201).expect('Idempotency-Replayed', 'true'),
  ])
  await lists
})
