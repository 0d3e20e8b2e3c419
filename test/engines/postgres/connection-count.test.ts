import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { connectToPostgres } from '../../support/postgres-client.ts'

const GUIDE = new URL('../../../docs/postgresql.md', import.meta.url)

test('a process opens as many connections as docs/postgresql.md says, and no more', async () => {
  const text = readFileSync(GUIDE, 'utf8')
  const [, most = ''] = /A process opens up to (\d+) connections/.exec(text) ?? []
  const { http, databaseUrl } = await openTestApp()
  await http.post('/users').send(newUserBody()).expect(201)
  const holder = await connectToPostgres(databaseUrl)
  onTestFinished(() => holder.end())
  await holder.query('BEGIN; UPDATE users SET name = name')
  const paths = ['/users/1', '/users?sort=name', '/users?page=2000', '/users?count=true&name=ann']
  const held = http.put('/users/1').send({ user: { name: 'Held' } })
  const answers = Array.from({ length: 200 }, (_, index) => http.get(paths[index % 4] ?? ''))
  await Promise.all([held.expect(503), ...answers.map(answer => answer.expect(200))])
  const rows = await holder.query<{ connections: number }>(
    `SELECT count(*) AS connections FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'user-records-service'`,
  )
  const [{ connections = 0 } = {}] = rows.rows
  expect(connections).toBeGreaterThan(3)
  expect(connections).toBeLessThanOrEqual(Number(most))
})
