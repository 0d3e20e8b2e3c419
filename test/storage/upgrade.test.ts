import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Environment } from '../../src/config/settings.ts'
import { engine } from '../support/engine.ts'
import { walk } from '../support/list-pages.ts'
import { type Age, openOldDatabase, type SeenDatabase } from '../support/old-database.ts'
import { type AtEnd, openTestApp, type TestApp, temporaryFolder } from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'
import { storedTables } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

/** Letters that 0.1.0 sorted by themselves, and that sort like another letter since. */
const FOLDED_SINCE = /[µſẛ]/

const AGES: readonly Age[] = ['oldest', 'newest']

describe.each(AGES)('a start takes over the %s database', age => {
  let app: TestApp
  let seen: SeenDatabase
  const ends: (() => unknown)[] = []
  beforeAll(async () => {
    const upgraded = await openUpgraded(age, {}, end => ends.unshift(end))
    app = upgraded.app
    seen = upgraded.seen
    return async () => {
      for (const end of ends.splice(0)) await end()
    }
  })

  test('with every user, byte for byte, entity tags of what they show, and what `q` finds', async () => {
    const list = await app.http.get('/users?per_page=1000')
    expect(list.text).toBe(seen.list.text)
    expect(seen.users.length).toBeGreaterThan(50)
    for (const { id, text, etag = '' } of seen.users) {
      const user = await app.http.get(`/users/${id}`)
      expect([user.text, user.headers.etag]).toEqual([text, tagNow(etag)])
    }
    for (const id of seen.deleted) await app.http.get(`/users/${id}`).expect(404)
    for (const { q, name } of seen.searches) {
      await untilPasses(async () => {
        const found = await app.http.get('/users').query({ q }).expect(200)
        const names = found.body.map((user: { name: string }) => user.name)
        expect({ q, names }).toEqual({ q, names: name === 'Zoë Straße' ? [] : [name] })
      })
    }
  })

  test('with passwords and digests of every kind', async () => {
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
    const users: { id: number; name: string }[] = JSON.parse(seen.list.text)
    const moved = new Set(users.filter(({ name }) => FOLDED_SINCE.test(name)).map(({ id }) => id))
    expect(seen.walks).toHaveLength(10)
    for (const { sort, next, rest } of seen.walks) {
      const isMoved = engine === 'sqlite' && age === 'oldest' && sort.endsWith('name')
      const keeps = (id: number) => !isMoved || !moved.has(id)
      const ids = (await walk<{ id: number }>(app, next)).flat().map(({ id }) => id)
      expect({ sort, ids: ids.filter(keeps) }).toEqual({ sort, ids: rest.filter(keeps) })
    }
  })

  test('with Idempotency-Keys, which give the first answer again', async () => {
    const { text: before } = await app.http.get('/users?per_page=1000')
    for (const { about, key, body, status, text, etag, location } of seen.keys) {
      const repeat = (sent: object) =>
        app.http.post('/users').set('Idempotency-Key', key).send(sent)
      const again = await repeat(body)
      if (about === 'deletedLater') {
        expect(again.status).toBe(410)
        continue
      }
      expect([about, again.status, again.text]).toEqual([about, status, text])
      expect(again.headers).toMatchObject({
        etag: tagNow(etag),
        ...{ location, 'idempotency-replayed': 'true' },
      })
      const other = await repeat({ ...body, user: { name: 'Other', email: 'other@x.co' } })
      expect([other.status, other.body.reason]).toEqual([422, 'idempotency_key_reused'])
    }
    expect((await app.http.get('/users?per_page=1000')).text).toBe(before)
  })

  test('with a feed of changes, which begins with them in the order of their last change', async () => {
    const users = JSON.parse((await app.http.get('/users?per_page=1000&sort=updated_at')).text)
    const entries: { user: unknown }[] = []
    for (let query = 'limit=7', hasMore = true; hasMore; ) {
      const { body } = await app.http.get(`/users/changes?${query}`).expect(200)
      entries.push(...body.data)
      query = `limit=7&after=${body.next}`
      hasMore = body.has_more
    }
    expect(entries.map(({ user }) => user)).toEqual(users)
  })

  test('with bans, except those that the oldest releases stored under credentials', async () => {
    expect(seen.bans.length).toBeGreaterThan(5)
    for (const headers of seen.bans) {
      const answer = await app.http.get('/users').set(toBytes(headers))
      const status = 'authorization' in headers && age === 'oldest' ? 200 : 403
      expect({ headers, status: answer.status }).toEqual({ headers, status })
      if (status === 200) continue
      const retryAfter = Number(answer.headers['retry-after'])
      expect(retryAfter).toBeGreaterThan(0)
      expect(retryAfter).toBeLessThanOrEqual(86_400)
    }
  })

  test.runIf(age === 'newest')('with API keys, their scopes and their bans', async () => {
    const { app, seen } = await openUpgraded(age, { API_KEYS: 'required' })
    for (const [method, name, status] of [
      ['get', 'reader', 200],
      ['post', 'reader', 403],
      ['post', 'writer', 422],
      ['get', 'revoked', 401],
      ['get', 'expired', 401],
      ['get', 'banned', 403],
    ] as const) {
      const bearer = `Bearer ${seen.apiKeys?.[name]}`
      const answer = await app.http[method]('/users').set('Authorization', bearer)
      expect([method, name, answer.status]).toEqual([method, name, status])
    }
  })

  test('so that clients change users, no id is given out again, and check finds nothing, as after migrate', async () => {
    const migrated = await openMigrated(age)
    expect(await lastingRows(migrated.databaseUrl)).toEqual(await lastingRows(app.databaseUrl))
    const started = await openUpgraded(age)
    const [first] = started.seen.users
    const { headers } = await started.app.http.get(`/users/${first?.id}`).expect(200)
    const change = started.app.http.put(`/users/${first?.id}`).send({ user: { name: 'Changed' } })
    await change.set('If-Match', String(headers.etag)).expect(200)
    const user = { name: 'New', email: 'new@x.co' }
    const created = await started.app.http.post('/users').send({ user })
    expect(created.body.id).toBeGreaterThan(Math.max(...started.seen.deleted))
    await started.app.stop()
    for (const { cwd, databaseUrl } of [started, migrated]) {
      const env = { DATABASE_URL: databaseUrl }
      const checked = await runCommand({ cwd, env, args: ['check', '--json'] })
      expect(checked).toMatchObject({ code: 0, stderr: '' })
      expect(JSON.parse(checked.stdout)).toMatchObject({ sound: true, faults: [], pending: [] })
    }
  })
})

test.each(AGES)(
  'an unfinished import into the %s database goes on, and a finished one can begin again',
  async age => {
    const cwd = temporaryFolder()
    const { databaseUrl, seen } = await openOldDatabase(cwd, age)
    const env = { DATABASE_URL: databaseUrl }
    const importing = async (args: string[], input = '') => {
      const ended = await runCommand({ cwd, env, args: ['import', ...args, '--json'], input })
      return { ...ended, report: ended.stdout && JSON.parse(ended.stdout) }
    }
    const rejects = join(cwd, 'rejects.ndjson')
    writeFileSync(rejects, `${seen.imports.killedRejects}{"line": 4, "errors": {"na`)
    const killed = ['-', '--format', 'ndjson', '--resume', '--rejects', rejects]
    const counts = { end: 'done', rows: 8, earlier_rows: 4, created: 5, refused: 3 }
    expect(await importing(killed, seen.imports.killed)).toMatchObject({ code: 3, report: counts })
    const lines = readFileSync(rejects, 'utf8').trim().split('\n')
    expect(lines.map(line => JSON.parse(line).line)).toEqual([2, 3, 8])

    writeFileSync(join(cwd, 'finished.ndjson'), seen.imports.finished)
    const report = { rows: 7, earlier_rows: 0, unchanged: 6, refused: 1 }
    const repeated = await importing(['finished.ndjson', '--on-conflict', 'update'])
    expect(repeated).toMatchObject({ code: 3, report })
    expect(await runCommand({ cwd, env, args: ['check'] })).toMatchObject({ code: 0, stderr: '' })
  },
)

async function openUpgraded(age: Age, settings: Environment = {}, atEnd: AtEnd = onTestFinished) {
  const cwd = temporaryFolder(atEnd)
  const { databaseUrl, seen } = await openOldDatabase(cwd, age, atEnd)
  const env = { DATABASE_URL: databaseUrl, TRUST_PROXY: '1', ...settings }
  const app = await openTestApp({ env, limits: seen.limits }, atEnd)
  return { app, cwd, databaseUrl, seen }
}

async function openMigrated(age: Age) {
  const cwd = temporaryFolder()
  const { databaseUrl } = await openOldDatabase(cwd, age)
  const env = { DATABASE_URL: databaseUrl }
  expect(await runCommand({ cwd, env, args: ['migrate'] })).toMatchObject({ code: 0, stderr: '' })
  return { cwd, databaseUrl }
}

/** The rows of some tables, without what is not the same each time: new digests, and times that go by the age of the database. */
async function lastingRows(databaseUrl: string) {
  const tables = await storedTables(databaseUrl)
  return ['users', 'idempotency_keys', 'api_keys', 'schema_migrations'].map(name =>
    tables[name]
      ?.map(({ password_digest: _, expires_at: __, applied_at: ___, ...row }) => row)
      .toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1)),
  )
}

/** Headers are sent a byte for each character. */
function toBytes(headers: SeenDatabase['bans'][number]): Record<string, string> {
  const toLatin1 = (text: string) => Buffer.from(text).toString('latin1')
  return Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, toLatin1(text)]))
}

/** The entity tag of a user whose earlier one held only the time of the last change. */
function tagNow(etag = '') {
  return expect.stringMatching(new RegExp(`^${etag.slice(0, -1)}(-\\d+){2}"$`))
}
