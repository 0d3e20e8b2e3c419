import { setTimeout as sleep } from 'node:timers/promises'
import type { Response } from 'supertest'
import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { holdOpen, insertUsers, untilWaiting } from '../../support/postgres-connections.ts'
import { queryPostgres } from '../../support/postgres-databases.ts'
import { until } from '../../support/until.ts'

const TABLE = 'LOCK TABLE users IN ACCESS EXCLUSIVE MODE'

/** Less than a statement may take. Two of them take longer than a write may wait for a lock. */
const SLOW_INSERTS = `
  CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
  CREATE TRIGGER slow AFTER INSERT ON users EXECUTE FUNCTION be_slow()`

const SLEEPING = `
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`

const UNAVAILABLE = '503 storage_unavailable'

/** A busy machine may end the wait of a write while the server tries it. */
const UNAVAILABLE_OR_UNKNOWN = expect.toBeOneOf([UNAVAILABLE, '503 outcome_unknown'])

const outcomeOf = ({ status, body }: Response) => `${status} ${body.reason}`

/** A service with users, and a transaction that stays open. */
async function openLocked(users: number, lock: string) {
  const app = await openTestApp({ users: Array.from({ length: users }, () => newUserBody()) })
  return { ...app, holder: await holdOpen(app.databaseUrl, lock) }
}

test('a transaction that holds the row of a user keeps nobody else waiting, and its user gets 503', async () => {
  const lock = `UPDATE users SET name = 'Held', name_lower = 'held' WHERE id = 3`
  const { http, holder, logLines } = await openLocked(20, lock)
  let isHeld = true
  const rename = (id: number) => http.put(`/users/${id}`).send({ user: { name: `New ${id}` } })
  const held = Promise.all(
    [rename(3), rename(3), http.delete('/users/3')].map(async request => {
      const { status, body, headers } = await request
      return { status, reason: body.reason, retryAfter: headers['retry-after'], isHeld }
    }),
  )
  for (let id = 1; id <= 20; id++) {
    if (id !== 3) await rename(id).expect(200)
    await http.get(`/users/${id}`).expect(200)
  }
  await http.post('/users').send(newUserBody()).expect(201)
  await http.delete('/users/20').expect(204)
  await http.get('/users?created_after=2000-01-01T00:00:00Z&count=true').expect(200)
  const refused = { status: 503, reason: 'storage_unavailable', retryAfter: '1', isHeld: true }
  expect(await held).toEqual([refused, refused, refused])
  // Every request of an outage writes such a line.
  const lines = logLines.filter(({ msg }) => msg === 'database unavailable')
  expect(lines.length).toBeGreaterThan(0)
  expect(lines.filter(({ err }) => (err as { stack?: string }).stack)).toEqual([])
  isHeld = false
  await holder.query('COMMIT')
  expect((await rename(3).expect(200)).body.name).toBe('New 3')
})

test('a dozen held users and a dozen claimed e-mails keep nobody else waiting', async () => {
  const lock = `UPDATE users SET name = 'Held', name_lower = 'held' WHERE id <= 12;
    ${insertUsers(1, 12)}`
  const { http, holder } = await openLocked(20, lock)
  const rename = (id: number) => http.put(`/users/${id}`).send({ user: { name: 'New' } })
  const create = (fields = {}) => http.post('/users').send(newUserBody(fields))
  const dozen = Array.from({ length: 12 }, (_, index) => index + 1)
  const held = Promise.all(dozen.map(nth => rename(nth)))
  const claimed = Promise.all(dozen.map(nth => create({ email: `U${nth}@x.co` })))
  for (let id = 13; id <= 20; id++) {
    await rename(id).expect(200)
    await create().expect(201)
  }
  expect((await held).map(outcomeOf)).toEqual(Array(12).fill(UNAVAILABLE))
  expect((await claimed).map(outcomeOf)).toEqual(Array(12).fill(UNAVAILABLE_OR_UNKNOWN))
  await holder.query('COMMIT')
  await rename(1).expect(200)
  expect((await create({ email: 'u1@x.co' }).expect(422)).body.reason).toBe('email_taken')
})

test('creates of many claimed e-mails are refused as not done, but for the one that is being tried', async () => {
  const { http, holder } = await openLocked(0, insertUsers(1, 60))
  const create = (nth: number) => http.post('/users').send(newUserBody({ email: `u${nth}@x.co` }))
  // Again if a busy machine ended the waits of others too while the server tried them.
  await until(async () => {
    const answers = await Promise.all(Array.from({ length: 60 }, (_, index) => create(index + 1)))
    const outcomes = answers.map(outcomeOf)
    expect(outcomes).toEqual(Array(60).fill(UNAVAILABLE_OR_UNKNOWN))
    return outcomes.filter(outcome => outcome === UNAVAILABLE).length > 50
  })
  await holder.query('ROLLBACK')
  await create(1).expect(201)
})

test('creates that wait for a slow statement without a lock are done', async () => {
  const { http, databaseUrl } = await openTestApp()
  await queryPostgres(databaseUrl, SLOW_INSERTS)
  const create = async () => (await http.post('/users').send(newUserBody())).status
  let isRunning = false
  const creates: Promise<number>[] = []
  // Another one if a busy machine did not look while the last one slept.
  await until(async () => {
    if (!isRunning) {
      isRunning = true
      creates.push(
        create().finally(() => {
          isRunning = false
        }),
      )
    }
    return (await queryPostgres(databaseUrl, SLEEPING)).length === 1
  })
  creates.push(...Array.from({ length: 20 }, create))
  expect(new Set(await Promise.all(creates))).toEqual(new Set([201]))
})

test('a lock on the table of users, as of VACUUM FULL: requests get 503, and are done once it is free', async () => {
  const { http, holder } = await openLocked(2, TABLE)
  const ask = () =>
    Promise.all([
      http.get('/users/1'),
      http.get('/users?name=ann&count=true'),
      http.put('/users/1').send(newUserBody()),
      http.post('/users').send(newUserBody()),
      http.delete('/users/2'),
    ])
  const refused = [...Array(2).fill(UNAVAILABLE), ...Array(3).fill(UNAVAILABLE_OR_UNKNOWN)]
  expect((await ask()).map(outcomeOf)).toEqual(refused)
  await holder.query('COMMIT')
  expect((await ask()).map(({ status }) => status)).toEqual([200, 200, 200, 201, 204])
})

test('a lock on the table of users lets no request that does not read it wait', async () => {
  const { http, databaseUrl } = await openTestApp()
  const body = newUserBody()
  const create = () => http.post('/users').set('Idempotency-Key', 'once').send(body).expect(201)
  await create()
  const { headers } = await http.get('/users').expect(200)
  await holdOpen(databaseUrl, TABLE)
  // Again if the machine was too busy to see them wait, or to ask before they had ended.
  await until(async () => {
    let areHeld = true
    // Each is a statement of its own.
    const lists = Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        http.get(`/users?per_page=${index + 1}`).expect(503),
      ),
    ).finally(() => {
      areHeld = false
    })
    await Promise.race([untilWaiting(databaseUrl, 2), lists])
    await http.get('/users').set('If-None-Match', String(headers.etag)).expect(304)
    await create().expect('Idempotency-Replayed', 'true')
    const wereHeld = areHeld
    await lists
    return wereHeld
  })
})

test('a lock that only writes wait for keeps reads and /readyz answered, however many creates wait', async () => {
  const { http } = await openLocked(1, 'LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE')
  let isOver = false
  const creates = Promise.all(
    Array.from({ length: 100 }, async () => (await http.post('/users').send(newUserBody())).status),
  ).finally(() => {
    isOver = true
  })
  while (!isOver) {
    await http.get('/readyz').expect(200)
    await http.get('/users/1').expect(200)
    await sleep(20)
  }
  expect(new Set(await creates)).toEqual(new Set([503]))
})
