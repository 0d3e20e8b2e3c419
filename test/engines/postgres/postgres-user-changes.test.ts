import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createPostgresUserChanges } from '../../../src/storage/postgres/postgres-user-changes.ts'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { startPgBouncer } from '../../support/pgbouncer.ts'
import { asServingRole, connectTo, tasksOn } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  newPostgresDatabase,
  queryPostgres,
} from '../../support/postgres-databases.ts'
import { canUsePgBouncer, findPostgresBinaries } from '../../support/programs.ts'
import { until } from '../../support/until.ts'

function runProgram(name: string, ...args: string[]): void {
  execFileSync(join(findPostgresBinaries() as string, name), args)
}

test('GET /users/changes answers 410 after pg_restore into the same database, emptied', async () => {
  const databaseUrl = await newPostgresDatabase()
  const file = join(temporaryFolder(), 'users.dump')
  const env = { DATABASE_URL: databaseUrl }
  const before = await openTestApp({ env, users: [newUserBody()] })
  await before.http.get('/users/changes').expect(200)
  runProgram('pg_dump', '--format=custom', '--no-owner', `--file=${file}`, databaseUrl)
  await before.http.delete('/users/1').expect(204)
  const { next } = (await before.http.get('/users/changes').expect(200)).body
  await queryPostgres(databaseUrl, 'DROP SCHEMA public CASCADE; CREATE SCHEMA public')
  runProgram('pg_restore', '--no-owner', '--exit-on-error', `--dbname=${databaseUrl}`, file)
  const { http } = await openTestApp({ env })
  const { body } = await http.get(`/users/changes?after=${next}`).expect(410)
  expect(body).toMatchObject({ reason: 'cursor_expired' })
  expect((await http.get('/users/changes').expect(200)).body.data).toHaveLength(1)
})

test('users that row-level security hides are not told as deleted, also through a pooler, and are shown again without it', async () => {
  const url = await newPostgresDatabase()
  const restricted = await asServingRole(url)
  await tasksOn(url).migrate()
  const urls = [restricted, ...(canUsePgBouncer ? [await startPgBouncer(restricted)] : [])]
  const services = await Promise.all(
    urls.map(DATABASE_URL => openTestApp({ env: { DATABASE_URL } })),
  )
  await services[0]?.http.post('/users').send(newUserBody()).expect(201)
  for (const { http } of services) {
    const { next } = (await http.get('/users/changes').expect(200)).body
    await queryPostgres(
      url,
      `ALTER TABLE users ENABLE ROW LEVEL SECURITY; UPDATE users SET name = name || 'x'`,
    )
    for (const query of ['', `?after=${next}`]) {
      expect((await http.get(`/users/changes${query}`)).status).toBeGreaterThanOrEqual(500)
    }
    await queryPostgres(url, 'ALTER TABLE users DISABLE ROW LEVEL SECURITY')
    const { body } = await http.get(`/users/changes?after=${next}`).expect(200)
    expect(body.data).toMatchObject([{ id: 1, user: { id: 1 } }])
  }
})

test('the feed of a restored database begins anew, although to forget all changes takes longer than a statement may', async () => {
  const databaseUrl = await copyPostgresTemplate()
  await queryPostgres(
    databaseUrl,
    `INSERT INTO user_changes (id, changed_in, deleted_at)
     SELECT id, '3', '2026-01-31T12:00:00.000Z' FROM generate_series(1, 500000) AS id;
     UPDATE user_feed SET server = 'another/00000001/1/1'`,
  )
  const changes = createPostgresUserChanges(connectTo(databaseUrl, { longStatementMs: 500 }))
  const page = await until(() => changes.read(undefined, 1).catch(() => undefined))
  expect(page.changes).toEqual([])
  expect(await queryPostgres(databaseUrl, 'SELECT FROM user_changes')).toEqual([])
})
