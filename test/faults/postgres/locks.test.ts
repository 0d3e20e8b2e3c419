import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { connectToPostgres } from '../../support/postgres-client.ts'

/** A service with users, and a transaction that stays open. */
async function openLocked({ users, lock }: { users: number; lock: string }) {
  const app = await openTestApp()
  for (let nth = 0; nth < users; nth++)
    await app.http.post('/users').send(newUserBody()).expect(201)
  const holder = await connectToPostgres(app.databaseUrl)
  onTestFinished(() => holder.end())
  await holder.query('BEGIN')
  await holder.query(lock)
  return { ...app, holder }
}

test('a transaction that holds the row of a user keeps nobody else waiting, and its user gets 503', async () => {
  const { http, holder, logLines } = await openLocked({
    users: 20,
    lock: `UPDATE users SET name = 'Held', name_lower = 'held' WHERE id = 3`,
  })
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

test('a lock that becomes free in time is waited for', async () => {
  const { http, holder } = await openLocked({
    users: 1,
    lock: `UPDATE users SET name = 'Held', name_lower = 'held' WHERE id = 1`,
  })
  const renamed = http.put('/users/1').send({ user: { email: 'new@example.com' } })
  const answer = renamed.then(response => response)
  await holder.query('COMMIT')
  const { status, body } = await answer
  expect([status, body.name, body.email]).toEqual([200, 'Held', 'new@example.com'])
})

test('an e-mail that an open transaction claims keeps no other create waiting for it', async () => {
  const { http, holder } = await openLocked({
    users: 0,
    lock: `INSERT INTO users (name, name_lower, email, created_at, updated_at)
           VALUES ('A', 'a', 'held@example.com', '2026-01-31T12:00:00.000Z', '2026-01-31T12:00:00.000Z')`,
  })
  const claim = http.post('/users').send(newUserBody({ email: 'Held@example.com' }))
  const claimed = claim.then(({ status, body }) => [status, body.reason])
  const others = Array.from({ length: 10 }, () => http.post('/users').send(newUserBody()))
  expect((await Promise.all(others)).map(({ status }) => status)).toEqual(others.map(() => 201))
  expect(await claimed).toEqual([503, 'storage_unavailable'])
  await holder.query('COMMIT')
  const { status, body } = await http
    .post('/users')
    .send(newUserBody({ email: 'held@example.com' }))
  expect([status, body.reason]).toEqual([422, 'email_taken'])
})
