import { describe, expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { holdOpen, insertUser, untilWaiting } from '../../support/postgres-connections.ts'

/** A service with users, and a transaction that stays open. */
async function openLocked(users: number, lock: string) {
  const app = await openTestApp({ users: Array.from({ length: users }, () => newUserBody()) })
  return { ...app, holder: await holdOpen(app.databaseUrl, lock) }
}

const holdRow = (id: number) =>
  `UPDATE users SET name = 'Held', name_lower = 'held' WHERE id = ${id}`

test('a transaction that holds the row of a user keeps nobody else waiting, and its user gets 503', async () => {
  const { http, holder, logLines } = await openLocked(20, holdRow(3))
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
  const lines = logLines.filter(({ msg }) => msg === 'database unavailable')
  expect(lines.length).toBeGreaterThan(0)
  // Every request of an outage writes such a line.
  expect(lines.filter(({ err }) => (err as { stack?: string }).stack)).toEqual([])
  isHeld = false
  await holder.query('COMMIT')
  const { body } = await rename(3).expect(200)
  expect(body.name).toBe('New 3')
})

/** For tests that free a lock within two seconds, which a busy machine may be too slow for. */
const IN_TIME = { retry: 5 }

test('a lock that becomes free in time is waited for', IN_TIME, async () => {
  const { http, holder, databaseUrl } = await openLocked(1, holdRow(1))
  const renamed = http.put('/users/1').send({ user: { email: 'new@example.com' } })
  const answer = renamed.then(response => response)
  await untilWaiting(databaseUrl)
  await holder.query('COMMIT')
  const { status, body } = await answer
  expect([status, body.name, body.email]).toEqual([200, 'Held', 'new@example.com'])
})

test('an e-mail that an open transaction claims keeps no other create waiting for it', async () => {
  const { http, holder } = await openLocked(0, insertUser('held@example.com'))
  const create = async (body = newUserBody()) => {
    const { status, body: answer } = await http.post('/users').send(body)
    return [status, answer.reason]
  }
  const claimed = create(newUserBody({ email: 'Held@example.com' }))
  const others = await Promise.all(Array.from({ length: 10 }, () => create()))
  expect(others.map(([status]) => status)).toEqual(Array(10).fill(201))
  expect(await claimed).toEqual([503, 'storage_unavailable'])
  await holder.query('COMMIT')
  expect(await create(newUserBody({ email: 'held@example.com' }))).toEqual([422, 'email_taken'])
})

describe('a lock on the table of users, as of a migration or VACUUM FULL', () => {
  const LOCK = 'LOCK TABLE users IN ACCESS EXCLUSIVE MODE'

  async function openHeld() {
    const { http, holder, databaseUrl } = await openLocked(2, LOCK)
    const ask = async () => {
      const answers = await Promise.all([
        http.get('/users/1'),
        http.get('/users?sort=name'),
        http.get('/users?name=ann&count=true'),
        http.put('/users/1').send(newUserBody()),
        http.post('/users').send(newUserBody()),
        http.delete('/users/2'),
      ])
      return answers.map(({ status, body }) => [status, body.reason])
    }
    return { ask, holder, databaseUrl }
  }

  const DONE = [200, 200, 200, 200, 201, 204]

  test('that is free in time delays requests, and fails none', IN_TIME, async () => {
    const { ask, holder, databaseUrl } = await openHeld()
    const answers = ask()
    await untilWaiting(databaseUrl)
    await holder.query('COMMIT')
    expect((await answers).map(([status]) => status)).toEqual(DONE)
  })

  test('that is not free in time is answered with 503', async () => {
    const { ask, holder } = await openHeld()
    expect(await ask()).toEqual(DONE.map(() => [503, 'storage_unavailable']))
    await holder.query('COMMIT')
    expect((await ask()).map(([status]) => status)).toEqual(DONE)
  })

  test('lets no request that does not read it wait behind those that do', async () => {
    const { http, databaseUrl } = await openTestApp()
    const create = () =>
      http
        .post('/users')
        .set('Idempotency-Key', 'only-once')
        .send({ user: { name: 'Ann', email: 'ann@example.com' } })
    await create().expect(201)
    const { headers } = await http.get('/users').expect(200)
    await holdOpen(databaseUrl, LOCK)
    // Each is a statement of its own.
    const lists = Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        http.get(`/users?per_page=${index + 1}`).expect(503),
      ),
    )
    await untilWaiting(databaseUrl, 2)
    await Promise.all([
      http.get('/users').set('If-None-Match', String(headers.etag)).expect(304),
      create().expect(201).expect('Idempotency-Replayed', 'true'),
    ])
    await lists
  })
})
