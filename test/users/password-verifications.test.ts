import { randomBytes, scryptSync } from 'node:crypto'
import { hashSync as hashArgon2 } from '@node-rs/argon2'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { beforeAll, describe, expect, test } from 'vitest'
import { isCurrentDigest } from '../../src/users/passwords.ts'
import { openKeyedApp } from '../support/api-keys.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql, holdWrites, selectRows } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

const PATH = '/password-verifications'

const ANN = { name: 'Ann', email: 'Ann@x.co', password: 'correct horse' }

const WRONG = {
  message: 'Wrong email or password',
  resource: 'Request',
  code: 422,
  status: false,
  reason: 'wrong_credentials',
}

/** For tests that only look at users of their own. */
const app = shareTestApp()

interface Login {
  readonly email?: string
  readonly password?: string | null
}

async function create(fields: Login = {}, { http }: TestApp = app) {
  const response = await http.post('/users').send({ user: { ...ANN, ...fields } })
  expect(response.status).toBe(201)
  return response.body
}

function verify(fields: Login = {}, { http }: TestApp = app) {
  const { email, password } = { ...ANN, ...fields }
  return http.post(PATH).send({ user: { email, password } })
}

let serial = 0

/** Creates a user as an import does: with a digest of its own. */
async function createWithDigest(digest: string, service: TestApp = app) {
  const user = await create({ email: `digest${serial++}@x.co`, password: null }, service)
  await storeDigest(digest, user, service)
  return user
}

async function storeDigest(digest: string, { id }: { readonly id: number }, { databaseUrl } = app) {
  await executeSql(databaseUrl, `UPDATE users SET password_digest = '${digest}' WHERE id = ${id}`)
}

async function storedDigest({ id }: { readonly id: number }): Promise<string> {
  const sql = `SELECT password_digest FROM users WHERE id = ${id}`
  const [row] = await selectRows(app.databaseUrl, sql)
  return String(row?.password_digest)
}

async function untilUpgraded(user: { readonly id: number }): Promise<string> {
  await untilPasses(async () => {
    expect(isCurrentDigest(await storedDigest(user))).toBe(true)
  })
  return storedDigest(user)
}

function scryptDigest(password: string): string {
  const salt = randomBytes(16)
  const key = scryptSync(password, salt, 32, { N: 16, r: 8, p: 1 })
  const [saltText, keyText] = [salt, key].map(bytes => bytes.toString('base64').replace(/=+$/, ''))
  return `$scrypt$ln=4,r=8,p=1$${saltText}$${keyText}`
}

let ann: Record<string, unknown>
beforeAll(async () => {
  ann = await create()
})

describe(`POST ${PATH}`, () => {
  test('answers 200 and the user, however the e-mail is written', async () => {
    for (const email of ['Ann@x.co', ' aNN@X.CO\t']) {
      const response = await verify({ email })
      expect(response.status).toBe(200)
      expect(response.text).toBe(JSON.stringify(ann))
      expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
      expect(response.headers['cache-control']).toBe('private, no-cache')
      expect(response.headers).not.toHaveProperty('etag')
    }
  })

  test('takes a password in each form of its characters, and not trimmed', async () => {
    const { email } = await create({ email: 'zoe@x.co', password: 'Zoëfi has a horse' })
    expect((await verify({ email, password: 'Zoe\u0308\ufb01 has a horse' })).status).toBe(200)
    expect((await verify({ email, password: ' Zoëfi has a horse' })).status).toBe(422)
  })

  test('answers alike to an unknown e-mail, a user without a password and a wrong password', async () => {
    const { email } = await create({ email: 'none@x.co', password: null })
    const unknown = ['nobody@x.co', 'nobody', '', 'nul\0@x.co', '\u212a@x.co']
    const logins: Login[] = [
      { password: 'correct horsf' },
      { password: '' },
      { password: 'nul\0 and \ud800' },
      { email },
      { email, password: '' },
      ...[...unknown, `${'a'.repeat(300)}@x.co`].map(each => ({ email: each })),
    ]
    for (const login of logins) {
      const { status, text, headers } = await verify(login)
      expect({ status, body: JSON.parse(text) }).toEqual({ status: 422, body: WRONG })
      expect(headers['cache-control']).toBe('no-store')
    }
    const problem = await verify({ email }).set('Accept', 'application/problem+json')
    expect(problem.status).toBe(422)
    expect(JSON.parse(problem.text)).toEqual({
      type: 'about:blank',
      title: 'Unprocessable Entity',
      status: 422,
      detail: 'Wrong email or password',
      instance: PATH,
      reason: 'wrong_credentials',
    })
  })

  const BLANK = ["can't be blank"]
  const NO_STRING = ['must be a string']
  test.each([
    [undefined, { user: ['is required'] }],
    [{}, { user: ['is required'] }],
    [{ user: null }, { user: ['is required'] }],
    [{ user: 'ann' }, { user: ['must be an object'] }],
    [{ user: {} }, { email: BLANK, password: BLANK }],
    [{ user: { email: 'Ann@x.co' } }, { password: BLANK }],
    [{ user: { password: 'correct horse' } }, { email: BLANK }],
    [{ user: { email: null, password: null } }, { email: BLANK, password: BLANK }],
    [{ user: { email: 1, password: ['x'] } }, { email: NO_STRING, password: NO_STRING }],
  ])('answers 422 with errors to %j', async (body, errors) => {
    const response = await app.http.post(PATH).send(body)
    expect(response.status).toBe(422)
    expect(response.body).toMatchObject({
      message: 'Validation failed',
      resource: 'Request',
      errors,
    })
  })

  test('takes a password that is shorter than new ones must be', async () => {
    const { email } = await createWithDigest(hashBcrypt('x', 4))
    expect((await verify({ email, password: 'x' })).status).toBe(200)
    expect((await verify({ email, password: 'y' })).body).toEqual(WRONG)
  })

  test('takes a password that is longer than new ones may be, and replaces its digest', async () => {
    const password = 'é'.repeat(1024)
    const user = await createWithDigest(hashArgon2(password, { memoryCost: 32, timeCost: 1 }))
    const { email } = user
    expect((await verify({ email, password: 'é'.repeat(1023) })).body).toEqual(WRONG)
    expect((await verify({ email, password })).status).toBe(200)
    await untilUpgraded(user)
    expect((await verify({ email, password })).status).toBe(200)
  })

  test('answers alike to every password that is too long, for each user and for none', async () => {
    const password = '😀'.repeat(1025)
    const user = await createWithDigest(hashArgon2(password, { memoryCost: 32, timeCost: 1 }))
    // A text that NFKC would sort for seconds.
    const marks = `a${'\u0301\u0323'.repeat(20_000)}`
    for (const given of [password, marks]) {
      for (const email of [user.email, 'nobody@x.co']) {
        const { status, body } = await verify({ email, password: given })
        expect([status, body]).toEqual([422, WRONG])
      }
    }
  })

  test('tells passwords apart that bcrypt does not', async () => {
    const user = await createWithDigest(hashBcrypt('secret', 4))
    const { email } = user
    const before = await storedDigest(user)
    for (const password of ['secret\0secret', 'secret\0', '\0secret']) {
      expect((await verify({ email, password })).body).toEqual(WRONG)
    }
    expect(await storedDigest(user)).toBe(before)
    expect((await verify({ email, password: 'secret' })).status).toBe(200)
  })

  test('knows POST and OPTIONS only, and ignores an Idempotency-Key', async () => {
    for (const method of ['get', 'head', 'put', 'delete'] as const) {
      const { status, headers } = await app.http[method](PATH)
      expect({ status, allow: headers.allow }).toEqual({ status: 405, allow: 'POST, OPTIONS' })
    }
    const options = await app.http.options(PATH)
    expect([options.status, options.headers.allow]).toEqual([204, 'POST, OPTIONS'])
    expect((await verify().set('Accept', 'text/html')).status).toBe(406)
    expect((await app.http.post(PATH).type('text').send('{}')).status).toBe(415)
    for (const key of ['one', 'one', 'not a key']) {
      const response = await verify().set('Idempotency-Key', key)
      expect(response.status).toBe(200)
      expect(response.headers).not.toHaveProperty('idempotency-replayed')
    }
    expect((await app.http.post(`${PATH}/`)).status).toBe(404)
  })

  test('is an action of its own for rate limits, which may count by the e-mail', async () => {
    const rule = {
      name: 'logins',
      to: 2,
      within: '1 hour',
      only: ['verify'],
      by: 'body:user.email',
    }
    const limited = await openTestApp({ limits: { rateLimits: [rule] } })
    const statuses = []
    for (const email of ['a@x.co', 'A@x.co', ' a@X.co', 'b@x.co']) {
      statuses.push((await verify({ email }, limited)).status)
    }
    expect(statuses).toEqual([422, 422, 429, 422])
    await create({}, limited)
  })

  test('needs a key with the scope passwords:verify where keys are required', async () => {
    const keyed = await openKeyedApp([
      { name: 'login', scopes: ['passwords:verify'] },
      { name: 'others', scopes: ['users:read', 'users:write'] },
    ])
    const [login = '', others = ''] = keyed.bearers
    await keyed.http.post('/users').set('Authorization', others).send({ user: ANN }).expect(201)
    await verify({}, keyed).set('Authorization', login).expect(200)
    await verify({}, keyed).expect(401)
    const { status, body } = await verify({}, keyed).set('Authorization', others)
    expect([status, body.message]).toEqual([403, 'The API key lacks the scope passwords:verify'])
    await keyed.http.get('/users').set('Authorization', login).expect(403)
  })

  test('answers 503 when too many passwords wait', async () => {
    const small = await openTestApp({ env: { MAX_WAITING_PASSWORDS: '1' } })
    await create({}, small)
    const answers = await Promise.all(Array.from({ length: 20 }, () => verify({}, small)))
    const statuses = new Set(answers.map(({ status }) => status))
    expect(statuses).toEqual(new Set([200, 503]))
    const refused = answers.find(({ status }) => status === 503)
    expect(refused?.body.reason).toBe('overloaded')
    expect(refused?.headers['retry-after']).toMatch(/^\d+$/)
  })
})

const { password } = ANN

describe('a successful verification', () => {
  test.each([
    ['bcrypt', hashBcrypt(password, 4)],
    ['scrypt', scryptDigest(password)],
    ['Argon2i', hashArgon2(password, { algorithm: 1 })],
    ['Argon2d', hashArgon2(password, { algorithm: 0 })],
    ['Argon2id of an old version', hashArgon2(password, { version: 0 })],
    ['less memory', hashArgon2(password, { memoryCost: 1024, timeCost: 8 })],
    ['fewer passes', hashArgon2(password, { memoryCost: 19_456, timeCost: 1 })],
    ['a short hash', hashArgon2(password, { outputLen: 16 })],
    ['a short salt', hashArgon2(password, { salt: Buffer.alloc(8, 1) })],
  ])('replaces a digest of %s, and nothing that clients see', async (_kind, digest) => {
    const user = await createWithDigest(digest)
    const { email } = user
    const { etag = '' } = (await app.http.get('/users')).headers
    expect((await verify({ email })).body).toEqual(user)
    const upgraded = await untilUpgraded(user)
    expect((await verify({ email })).body).toEqual(user)
    await app.http.get('/users').set('If-None-Match', etag).expect(304)
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(user)
    expect(await storedDigest(user)).toBe(upgraded)
    expect((await verify({ email, password: 'correct horsf' })).status).toBe(422)
  })

  test.each([
    ['this service', undefined],
    ['more memory', hashArgon2(password, { memoryCost: 65_536, timeCost: 1 })],
    ['more passes and lanes', hashArgon2(password, { timeCost: 3, parallelism: 2 })],
  ])('keeps a digest of %s', async (_kind, digest) => {
    const user =
      digest === undefined ? await create({ email: 'this@x.co' }) : await createWithDigest(digest)
    const { email } = user
    const before = await storedDigest(user)
    expect((await verify({ email })).status).toBe(200)
    expect((await verify({ email })).status).toBe(200)
    expect(await storedDigest(user)).toBe(before)
  })

  test('is not needed by a failed one: that replaces no digest', async () => {
    const digest = hashBcrypt(password, 4)
    const user = await createWithDigest(digest)
    const wrong = { email: user.email, password: 'correct horsf' }
    expect((await verify(wrong)).status).toBe(422)
    expect((await verify(wrong)).status).toBe(422)
    expect(await storedDigest(user)).toBe(digest)
  })

  test('is answered while the database takes no writes, and a later one replaces the digest', async () => {
    const user = await createWithDigest(hashBcrypt(password, 4))
    const { email } = user
    const held = await holdWrites(app.databaseUrl)
    expect((await verify({ email })).status).toBe(200)
    await held.release()
    await untilPasses(async () => {
      expect((await verify({ email })).status).toBe(200)
      expect(isCurrentDigest(await storedDigest(user))).toBe(true)
    })
  })

  test('never undoes a change of the password, nor does another one at the same time', async () => {
    const user = await createWithDigest(hashBcrypt(password, 4))
    const { email } = user
    for (let round = 0; round < 3; round++) {
      const old = { email, password: `old horse ${round}` }
      const fresh = { email, password: `fresh horse ${round}` }
      await storeDigest(hashBcrypt(old.password, 4), user)
      const verifications = Array.from({ length: 5 }, () => verify(old))
      const { password: changedTo } = fresh
      const change = app.http.put(`/users/${user.id}`).send({ user: { password: changedTo } })
      const [changed] = await Promise.all([change, ...verifications])
      expect(changed.status).toBe(200)
      // Passwords wait in one queue, so this one comes after those that verifications hash.
      await create({ email: `later${round}@x.co` })
      expect((await verify(fresh)).status).toBe(200)
      expect((await verify(old)).status).toBe(422)
    }
  })
})
