import { describe, expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { startPgBouncer } from '../../support/pgbouncer.ts'
import { holdOpen } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  newPostgresDatabase,
  queryPostgres,
} from '../../support/postgres-databases.ts'
import { canUsePgBouncer } from '../../support/programs.ts'
import { runCommand } from '../../support/run-command.ts'

describe.skipIf(!canUsePgBouncer)('through PgBouncer in transaction pooling mode', () => {
  test('the service works, with many requests at once, and so do the commands', async () => {
    const DATABASE_URL = await startPgBouncer(await newPostgresDatabase())
    const { http, url } = await openTestApp({ env: { DATABASE_URL } })
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
    const headers = { Accept: 'application/x-ndjson' }
    const whole = await (await fetch(`${url}/users`, { headers })).text()
    expect(whole.match(/\n/g)).toHaveLength(200)
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
})
