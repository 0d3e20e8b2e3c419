import type { Response } from 'supertest'
import { describe, expect, test } from 'vitest'
import { byEngine, isEngine } from '../support/engine.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'
import { executeSql } from '../support/sql.ts'

const TIME = '2026-01-31T12:00:00.000Z'

/** Adds users with these ids, as another program does. */
function insertUsers({ databaseUrl }: TestApp, ids: readonly (number | string)[]): Promise<void> {
  const rows = ids.map(id => `(${id}, 'Sql', 'sql', 'sql${id}@x.co', '${TIME}', '${TIME}')`)
  return executeSql(
    databaseUrl,
    `INSERT INTO users (id, name, name_lower, email, created_at, updated_at) VALUES ${rows}`,
  )
}

describe('after users whose ids no request was given', () => {
  const ADDED = [...Array.from({ length: 40 }, (_, at) => at + 2), 20_000]

  async function openWithAdded(): Promise<TestApp> {
    const app = await openTestApp({ users: [{ user: { name: 'Ann', email: 'ann@x.co' } }] })
    await insertUsers(app, ADDED)
    return app
  }

  test('POST /users gives out greater ones, also for many users and with a key', async () => {
    const { http } = await openWithAdded()
    const create = (name: string) => http.post('/users').send({ user: user(name) })
    const user = (name: string) => ({ name, email: `${name}@x.co` })
    const both = await Promise.all([create('bob').expect(201), create('cid').expect(201)])
    const keyed = await create('dan').set('Idempotency-Key', 'one').expect(201)
    await create('dan').set('Idempotency-Key', 'one').expect(201, keyed.text)
    const many = await http.post('/users').send({ users: [user('eve'), user('fay')] })
    const made = [...both, keyed].map(({ body }) => body.id)
    const ids = [...made, ...many.body.data.map((each: { user: { id: number } }) => each.user.id)]
    expect(Math.min(...ids)).toBeGreaterThan(20_000)
    expect(new Set(ids)).toHaveLength(5)
  })

  test('and so does an import', async () => {
    const { databaseUrl, http } = await openWithAdded()
    const env = { DATABASE_URL: databaseUrl }
    const rows = Array.from({ length: 3 }, (_, at) => `New,new${at}@x.co\n`)
    const input = `name,email\n${rows.join('')}`
    const args = ['import', '-', '--format', 'csv']
    const imported = await runCommand({ cwd: temporaryFolder(), env, args, input })
    expect(imported).toMatchObject({ code: 0 })
    const { body } = await http.get('/users?name=new').expect(200)
    expect(body.map(({ id }: { id: number }) => id)).toEqual([20_001, 20_002, 20_003])
  })
})

test('a user that is gone without a trigger is gone for its Idempotency-Key too', async () => {
  const { databaseUrl, http } = await openTestApp()
  const create = () =>
    http
      .post('/users')
      .set('Idempotency-Key', 'one')
      .send({ user: { name: 'Ann', email: 'ann@x.co' } })
  await create().expect(201)
  const replace = `
    REPLACE INTO users (id, name, name_lower, email, created_at, updated_at)
    VALUES (7, 'Sql', 'sql', 'ann@x.co', '${TIME}', '${TIME}')`
  await executeSql(databaseUrl, byEngine({ sqlite: replace, postgres: 'TRUNCATE users' }))
  await http.get('/users/1').expect(404)
  const { body } = await create().expect(410)
  expect(body.reason).toBe('idempotent_user_deleted')
})

describe.runIf(isEngine('sqlite', 'ids that PostgreSQL refuses'))(
  'users whose ids are none of the service',
  () => {
    const WRONG = ['-9007199254740993', '-5', '0', '9007199254740993', '9007199254740995']

    async function openWithWrong() {
      const app = await openTestApp({
        users: ['ann', 'bob'].map(name => ({ user: { name, email: `${name}@x.co` } })),
      })
      await insertUsers(app, WRONG)
      return app
    }

    test.each([
      '',
      'sort=-id&',
      'sort=name&',
      'sort=-created_at&',
      'q=x&',
      'name=sql&',
      `email=${WRONG.map(id => `sql${id}@x.co`)},ann@x.co&`,
    ])('GET /users?%s ends, and visits nobody twice', async query => {
      const { http } = await openWithWrong()
      const ids: number[] = []
      for (let path: string | undefined = `/users?${query}per_page=1`; path !== undefined; ) {
        const { body, headers }: Response = await http.get(path).expect(200)
        ids.push(...body.map(({ id }: { id: number }) => id))
        path = /<([^>]*)>; rel="next"/.exec(headers.link ?? '')?.[1]
        expect(ids.length).toBeLessThan(10)
      }
      expect(new Set(ids)).toHaveLength(ids.length)
    })

    test.each([
      ['', [1, 2]],
      ['q=x', [1, 2]],
      ['name=sql', []],
      [`email=${WRONG.map(id => `sql${id}@x.co`)},ann@x.co`, [1]],
    ])('the whole list of GET /users?%s has none of them', async (query, ids) => {
      const { http } = await openWithWrong()
      const { text } = await http.get(`/users?${query}`).set('Accept', 'application/x-ndjson')
      expect((text.match(/.+/g) ?? []).map(line => JSON.parse(line).id)).toEqual(ids)
    })

    test('GET /users/changes gives cursors that it takes back, also to who waits', async () => {
      const { http } = await openWithWrong()
      const ids: number[] = []
      for (let next = '', more = true; more; ) {
        const { body } = await http
          .get(`/users/changes?limit=1&wait=1${next && `&after=${next}`}`)
          .expect(200)
        ids.push(...body.data.map(({ id }: { id: number }) => id))
        next = body.next
        more = body.has_more
      }
      expect(ids).toEqual([1, 2])
    })
  },
)
