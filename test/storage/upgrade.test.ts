import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Response } from 'supertest'
import { describe, expect, test } from 'vitest'
import { engine, isEngine } from '../support/engine.ts'
import { openOldDatabase, type SeenDatabase } from '../support/old-database.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../support/open-test-app.ts'
import { run } from '../support/spawn-service.ts'
import { untilPasses } from '../support/until.ts'

/** Letters that 0.1.0 sorted by themselves, and that sort like another letter since. */
const FOLDED_SINCE = /[µſẛ]/

describe.each(['a start', 'migrate'] as const)(
  '%s takes over the database of an older release',
  way => {
    test('with every user, byte for byte, and their entity tags', async () => {
      const { app, seen } = await openUpgraded(way)
      const list = await app.http.get('/users?per_page=1000')
      expect(list.text).toBe(seen.list.text)
      expect(seen.users.length).toBeGreaterThan(50)
      for (const { id, text, etag = '' } of seen.users) {
        const user = await app.http.get(`/users/${id}`)
        expect([user.text, user.headers.etag]).toEqual([text, etag])
        await app.http.get(`/users/${id}`).set('If-None-Match', etag).expect(304)
      }
      const [first] = seen.users
      const change = app.http.put(`/users/${first?.id}`).send({ user: { name: 'Changed' } })
      await change.set('If-Match', first?.etag ?? '').expect(200)
    })

    test('with the ids of deleted users, which are not given out again', async () => {
      const { app, seen } = await openUpgraded(way)
      for (const id of seen.deleted) await app.http.get(`/users/${id}`).expect(404)
      const created = await app.http
        .post('/users')
        .send({ user: { name: 'New', email: 'new@x.co' } })
      expect(created.body.id).toBeGreaterThan(Math.max(...seen.deleted))
    })

    test('with passwords and digests of every kind', async () => {
      const { app, seen } = await openUpgraded(way)
      for (const [email, password] of seen.passwords) {
        const attempt = (wrong = '') =>
          app.http
            .post('/password-verifications')
            .send({ user: { email, password: password + wrong } })
        await attempt('x').expect(422)
        const before = await attempt().expect(200)
        expect((await attempt().expect(200)).text).toBe(before.text)
        expect(seen.users.map(({ text }) => text)).toContain(before.text)
      }
    })

    test('with cursors, which go on where they stopped', async () => {
      const { app, seen } = await openUpgraded(way)
      const users: { id: number; name: string }[] = JSON.parse(seen.list.text)
      const moved = new Set(users.filter(({ name }) => FOLDED_SINCE.test(name)).map(({ id }) => id))
      expect(seen.walks).toHaveLength(10)
      for (const { sort, next, rest } of seen.walks) {
        const isMoved = engine === 'sqlite' && sort.endsWith('name')
        const keeps = (id: number) => !isMoved || !moved.has(id)
        const ids = await walk(app, next)
        expect({ sort, ids: ids.filter(keeps) }).toEqual({ sort, ids: rest.filter(keeps) })
      }
    })

    test('with Idempotency-Keys, which give the first answer again', async () => {
      const { app, seen } = await openUpgraded(way)
      const total = await count(app)
      for (const { about, key, body, status, text, etag, location } of seen.keys) {
        const repeat = (sent: object) =>
          app.http.post('/users').set('Idempotency-Key', key).send(sent)
        if (about === 'deletedLater') {
          await repeat(body).expect(410)
          continue
        }
        const again = await repeat(body)
        expect([about, again.status, again.text]).toEqual([about, status, text])
        expect([again.headers.etag, again.headers.location]).toEqual([etag, location])
        expect(again.headers['idempotency-replayed']).toBe('true')
        const other = await repeat({ ...body, user: { name: 'Other', email: 'other@x.co' } })
        expect([other.status, other.body.reason]).toEqual([422, 'idempotency_key_reused'])
      }
      expect(await count(app)).toBe(total)
    })

    test('with bans, except those that older releases stored under credentials', async () => {
      const { app, seen } = await openUpgraded(way)
      expect(seen.bans.length).toBeGreaterThan(5)
      for (const headers of seen.bans) {
        const answer = await app.http.get('/users').set(toBytes(headers))
        const status = 'authorization' in headers ? 200 : 403
        expect({ headers, status: answer.status }).toEqual({ headers, status })
        if (status === 200) continue
        const retryAfter = Number(answer.headers['retry-after'])
        expect(retryAfter).toBeGreaterThan(0)
        expect(retryAfter).toBeLessThanOrEqual(86_400)
        const other = Object.fromEntries(Object.keys(headers).map(name => [name, '192.0.2.1']))
        await app.http.get('/users').set(other).expect(200)
      }
    })

    test('with users that `q` finds', async () => {
      const { app, seen } = await openUpgraded(way)
      for (const { q, name } of seen.searches) {
        await untilPasses(async () => {
          const found = await app.http.get('/users').query({ q }).expect(200)
          const names = found.body.map((user: { name: string }) => user.name)
          expect({ q, names }).toEqual({ q, names: name === 'Zoë Straße' ? [] : [name] })
        })
      }
    })
  },
)

test('an import that an older release did not finish goes on, and one that it finished can begin again', async () => {
  const cwd = temporaryFolder()
  const { databaseUrl, seen } = await openOldDatabase(cwd)
  const env = { DATABASE_URL: databaseUrl }
  const rejects = join(cwd, 'rejects.ndjson')
  writeFileSync(rejects, `${seen.imports.killedRejects}{"line": 4, "errors": {"na`)
  const killed = await run({
    cwd,
    env,
    args: ['import', '-', '--format', 'ndjson', '--resume', '--json', '--rejects', rejects],
    input: seen.imports.killed,
  })
  expect(killed).toMatchObject({ code: 3, stderr: '' })
  const counts = { end: 'done', rows: 8, earlier_rows: 4, created: 5, refused: 3 }
  expect(JSON.parse(killed.stdout)).toMatchObject(counts)
  const lines = readFileSync(rejects, 'utf8').trim().split('\n')
  expect(lines.map(line => JSON.parse(line).line)).toEqual([2, 3, 8])

  writeFileSync(join(cwd, 'conflict.csv'), seen.imports.conflict)
  const resumed = ['import', 'conflict.csv', '--resume', '--on-conflict', 'skip', '--json']
  const conflict = await run({ cwd, env, args: resumed })
  expect(conflict).toMatchObject({ code: 3 })
  expect(JSON.parse(conflict.stdout)).toMatchObject({ rows: 5, earlier_rows: 3, created: 3 })

  writeFileSync(join(cwd, 'finished.ndjson'), seen.imports.finished)
  const again = ['import', 'finished.ndjson', '--on-conflict', 'update', '--json']
  const finished = await run({ cwd, env, args: again })
  expect(finished).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(finished.stdout)).toMatchObject({ rows: 7, earlier_rows: 0, unchanged: 7 })
  expect(await run({ cwd, env, args: ['check'] })).toMatchObject({ code: 0, stderr: '' })
})

test('check finds nothing after a start, and after migrate', async () => {
  for (const way of ['a start', 'migrate'] as const) {
    const { app, cwd } = await openUpgraded(way)
    await untilPasses(() => app.http.get('/users?q=ada').expect(200))
    await app.stop()
    const checked = await run({
      cwd,
      env: { DATABASE_URL: app.databaseUrl },
      args: ['check', '--json'],
    })
    expect(checked).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(checked.stdout)).toMatchObject({ sound: true, faults: [], pending: [] })
  }
})

test('a backup from before the upgrade goes back, and is migrated again', async () => {
  if (!isEngine('sqlite', 'restore, which PostgreSQL does itself')) return
  const { app, cwd, seen } = await openUpgraded('migrate')
  await app.http.delete('/users/1').expect(204)
  await app.stop()
  const before = temporaryFolder()
  await openOldDatabase(before)
  copyFileSync(join(before, 'users.db'), join(cwd, 'backup.db'))
  const env = { DATABASE_URL: app.databaseUrl }
  const restored = await run({ cwd, env, args: ['restore', 'backup.db', '--json'] })
  expect(restored).toMatchObject({ code: 0 })
  expect(JSON.parse(restored.stdout).pending[0]).toBe('0006_keep_lengths_of_bans')
  const again = await openTestApp({ env })
  const list = await again.http.get('/users?per_page=1000')
  expect(list.text).toBe(seen.list.text)
})

async function openUpgraded(way: 'a start' | 'migrate') {
  const cwd = temporaryFolder()
  const { databaseUrl, seen } = await openOldDatabase(cwd)
  const env = { DATABASE_URL: databaseUrl }
  if (way === 'migrate') {
    expect(await run({ cwd, env, args: ['migrate'] })).toMatchObject({ code: 0, stderr: '' })
  }
  const app = await openTestApp({ env: { ...env, TRUST_PROXY: '1' }, limits: seen.limits })
  return { app, cwd, seen }
}

async function walk(app: TestApp, first: string): Promise<number[]> {
  const ids: number[] = []
  for (let next: string | undefined = first; next !== undefined; ) {
    const page: Response = await app.http.get(next).expect(200)
    ids.push(...page.body.map(({ id }: { id: number }) => id))
    next = /<([^>]+)>; rel="next"/.exec(page.headers.link ?? '')?.[1]
  }
  return ids
}

async function count(app: TestApp): Promise<number> {
  const { headers } = await app.http.get('/users?per_page=1&count=true')
  return Number(headers['x-total-count'])
}

/** Headers are sent a byte for each character. */
function toBytes(headers: SeenDatabase['bans'][number]): Record<string, string> {
  const entries = Object.entries(headers)
  return Object.fromEntries(
    entries.map(([name, text]) => [name, Buffer.from(text).toString('latin1')]),
  )
}
