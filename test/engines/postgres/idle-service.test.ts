import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createFakeClock } from '../../support/fake-clock.ts'
import { hurryPolls } from '../../support/global-timers.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { startSilencingProxy } from '../../support/silencing-proxy.ts'
import { until } from '../../support/until.ts'

hurryPolls()

const SESSIONS = `
  SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`

test('a service without a request for a minute leaves PostgreSQL alone until the next one', async () => {
  const databaseUrl = await copyPostgresTemplate()
  const proxy = await startSilencingProxy(databaseUrl)
  const clock = createFakeClock()
  const { http } = await openTestApp({
    env: { DATABASE_URL: proxy.url, MANAGEMENT_PORT: '0' },
    monotonicNow: clock.now,
  })
  const id = (await http.post('/users').send({ user: { name: 'Ann', email: 'a@x.co' } })).body.id
  clock.advance(50_000)
  await http.get(`/users/${id}`).expect(200)
  clock.advance(50_000)
  await http.get(`/users?name=ann`).expect(200)
  clock.advance(60_000)
  const sessions = async () => (await queryPostgres(databaseUrl, SESSIONS)).length
  await until(async () => (await sessions()) === 0)
  // It would have to connect anew. Samples of the page are taken ten times a second otherwise.
  const connected = proxy.accepted()
  await sleep(500)
  await http.get('/livez').expect(200)
  expect(proxy.accepted()).toBe(connected)
  await http.get('/readyz').expect(200)
  const user = { name: 'Bea' }
  await http.put(`/users/${id}`).send({ user }).expect(200)
  expect(proxy.accepted()).toBeGreaterThan(connected)
})
