import { randomBytes, scryptSync } from 'node:crypto'
import { hashSync as hashArgon2 } from '@node-rs/argon2'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { describe, expect, test } from 'vitest'
import { isCurrentDigest } from '../../src/users/passwords.ts'
import { openKeyedApp } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
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

async function create({ http }: TestApp, fields: Record<string, unknown> = {}) {
  const response = await http.post('/users').send({ user: { ...ANN, ...fields } })
  expect(response.status).toBe(201)
  return response.body
}

function verify({ http }: TestApp, fields: Record<string, unknown> = {}) {
  const { email, password } = { ...ANN, ...fields }
  return http.post(PATH).send({ user: { email, password } })
}

/** Creates a user as an import does: with a digest of its own. */
async function createWithDigest(app: TestApp, digest: string) {
  const user = await create(app, { password: null })
  await executeSql(app.databaseUrl, `UPDATE users SET password_digest = '${digest}'`)
  return user
}

async function storedDigest({ databaseUrl }: TestApp): Promise<string> {
  const [row] = await selectRows(databaseUrl, 'SELECT password_digest FROM users')
  return String(row?.password_digest)
}

async function untilUpgraded(app: TestApp): Promise<string> {
  await untilPasses(async () => {
    expect(isCurrentDigest(await storedDigest(app))).toBe(true)
  })
  return storedDigest(app)
}

function scryptDigest(password: string): string {
  const salt = randomBytes(16)
  const key = scryptSync(password, salt, 32, { N: 16, r: 8, p: 1 })
  const [saltText, keyText] = [salt, key].map(bytes => bytes.toString('base64').replace(/=+$/, ''))
  return `$scrypt$ln=4,r=8,p=1$${saltText}$${keyText}`
}

describe(`POST ${PATH}`, () => {
  test('answers 200 and the user, however the e-mail is written', async () => {
    const app = await openTestApp()
    const user = await create(app)
    for (const email of ['Ann@x.co', ' aNN@X.CO\t']) {
      const response = await verify(app, { email })
      expect(response.status).toBe(200)
      expect(response.text).toBe(JSON.stringify(user))
      expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
      expect(response.headers['cache-control']).toBe('private, no-cache')
      expect(response.headers).not.toHaveProperty('etag')
    }
  })

  test('takes a password in each form of its characters, and not trimmed', async () => {
    const app = await openTestApp()
    await create(app, { password: 'Zoëfi has a horse' })
    expect((await verify(app, { password: 'Zoe\u0308\ufb01 has a horse' })).status).toBe(200)
    expect((await verify(app, { password: ' Zoëfi has a horse' })).status).toBe(422)
  })

  test('answers alike to an unknown e-mail, a user without a password and a wrong password', async () => {
    const app = await openTestApp()
    await create(app)
    await create(app, { email: 'none@x.co', password: null })
    const answers = [
      await verify(app, { password: 'correct horsf' }),
      await verify(app, { password: '' }),
      await verify(app, { password: 'nul\0 and \ud800' }),
      await verify(app, { email: 'none@x.co' }),
      await verify(app, { email: 'none@x.co', password: '' }),
      ...['nobody@x.co', 'nobody', '', 'nul\0@x.co', '\u212a@x.co', `${'a'.repeat(300)}@x.co`].map(
        email => verify(app, { email }),
      ),
    ]
    for (const answer of answers) {
      const { status, text, headers } = await answer
      expect({ status, body: JSON.parse(text) }).toEqual({ status: 422, body: WRONG })
      expect(headers['cache-control']).toBe('no-store')
    }
  })

  test('answers in problem+json on request', async () => {
    const app = await openTestApp()
    const response = await verify(app).set('Accept', 'application/problem+json')
    expect(response.status).toBe(422)
    expect(JSON.parse(response.text)).toEqual({
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
    const app = await openTestApp()
    await create(app)
    const response = await app.http.post(PATH).send(body)
    expect(response.status).toBe(422)
    expect(response.body).toMatchObject({
      message: 'Validation failed',
      resource: 'Request',
      errors,
    })
  })

  test('takes a password that is shorter than new ones must be', async () => {
    const app = await openTestApp({ env: { PASSWORD_MIN_LENGTH: '20' } })
    await createWithDigest(app, hashBcrypt('x', 4))
    expect((await verify(app, { password: 'x' })).status).toBe(200)
    expect((await verify(app, { password: 'y' })).body).toEqual(WRONG)
  })

  test('takes a password that is longer than new ones may be, and replaces its digest', async () => {
    const app = await openTestApp()
    const password = 'é'.repeat(1024)
    await createWithDigest(app, hashArgon2(password, { memoryCost: 32, timeCost: 1 }))
    expect((await verify(app, { password: 'é'.repeat(1023) })).body).toEqual(WRONG)
    expect((await verify(app, { password })).status).toBe(200)
    await untilUpgraded(app)
    expect((await verify(app, { password })).status).toBe(200)
  })

  test('answers alike to every password that is too long, for each user and for none', async () => {
    const app = await openTestApp()
    const password = '😀'.repeat(1025)
    await createWithDigest(app, hashArgon2(password, { memoryCost: 32, timeCost: 1 }))
    // A text that NFKC would sort for seconds.
    const marks = `a${'\u0301\u0323'.repeat(20_000)}`
    for (const given of [password, marks]) {
      for (const email of [ANN.email, 'nobody@x.co']) {
        const { status, body } = await verify(app, { email, password: given })
        expect([status, body]).toEqual([422, WRONG])
      }
    }
  })

  test('tells passwords apart that bcrypt does not', async () => {
    const app = await openTestApp()
    await createWithDigest(app, hashBcrypt('secret', 4))
    const before = await storedDigest(app)
    for (const password of ['secret\0secret', 'secret\0', '\0secret']) {
      expect((await verify(app, { password })).body).toEqual(WRONG)
    }
    expect(await storedDigest(app)).toBe(before)
    expect((await verify(app, { password: 'secret' })).status).toBe(200)
  })

  test('knows POST and OPTIONS only, and ignores an Idempotency-Key', async () => {
    const app = await openTestApp()
    await create(app)
    for (const method of ['get', 'head', 'put', 'delete'] as const) {
      const { status, headers } = await app.http[method](PATH)
      expect({ status, allow: headers.allow }).toEqual({ status: 405, allow: 'POST, OPTIONS' })
    }
    const options = await app.http.options(PATH)
    expect({ status: options.status, allow: options.headers.allow }).toEqual({
      status: 204,
      allow: 'POST, OPTIONS',
    })
    expect((await verify(app).set('Accept', 'text/html')).status).toBe(406)
    expect((await app.http.post(PATH).type('text').send('{}')).status).toBe(415)
    for (const key of ['one', 'one', 'not a key']) {
      const response = await verify(app).set('Idempotency-Key', key)
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
    const app = await openTestApp({ limits: { rateLimits: [rule] } })
    const statuses = []
    for (const email of ['a@x.co', 'A@x.co', ' a@X.co', 'b@x.co']) {
      statuses.push((await verify(app, { email })).status)
    }
    expect(statuses).toEqual([422, 422, 429, 422])
    await create(app)
  })

  test('needs a key with the scope passwords:verify where keys are required', async () => {
    const app = await openKeyedApp([
      { name: 'login', scopes: ['passwords:verify'] },
      { name: 'others', scopes: ['users:read', 'users:write'] },
    ])
    const [login = '', others = ''] = app.bearers
    await app.http.post('/users').set('Authorization', others).send({ user: ANN }).expect(201)
    await verify(app).set('Authorization', login).expect(200)
    await verify(app).expect(401)
    const { status, body } = await verify(app).set('Authorization', others)
    expect([status, body.message]).toEqual([403, 'The API key lacks the scope passwords:verify'])
    await app.http.get('/users').set('Authorization', login).expect(403)
  })

  test('answers 503 when too many passwords wait', async () => {
    const app = await openTestApp({ env: { MAX_WAITING_PASSWORDS: '1' } })
    await create(app)
    const answers = await Promise.all(Array.from({ length: 30 }, () => verify(app)))
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
    const app = await openTestApp()
    const user = await createWithDigest(app, digest)
    const before = await app.http.get('/users')
    expect((await verify(app)).body).toEqual(user)
    const upgraded = await untilUpgraded(app)
    expect((await verify(app)).body).toEqual(user)
    const unchanged = await app.http.get('/users').set('If-None-Match', String(before.headers.etag))
    expect(unchanged.status).toBe(304)
    expect((await app.http.get('/users/1')).body).toEqual(user)
    expect(await storedDigest(app)).toBe(upgraded)
    expect((await verify(app, { password: 'correct horsf' })).status).toBe(422)
  })

  test.each([
    ['this service', undefined],
    ['more memory', hashArgon2(password, { memoryCost: 65_536, timeCost: 1 })],
    ['more passes and lanes', hashArgon2(password, { timeCost: 3, parallelism: 2 })],
  ])('keeps a digest of %s', async (_kind, digest) => {
    const app = await openTestApp()
    if (digest === undefined) await create(app)
    else await createWithDigest(app, digest)
    const before = await storedDigest(app)
    expect((await verify(app)).status).toBe(200)
    expect((await verify(app)).status).toBe(200)
    expect(await storedDigest(app)).toBe(before)
  })

  test('is not needed by a failed one: that replaces no digest', async () => {
    const app = await openTestApp()
    const digest = hashBcrypt(password, 4)
    await createWithDigest(app, digest)
    expect((await verify(app, { password: 'correct horsf' })).status).toBe(422)
    expect((await verify(app, { password: 'correct horsf' })).status).toBe(422)
    expect(await storedDigest(app)).toBe(digest)
  })

  test('is answered while the database takes no writes, and a later one replaces the digest', async () => {
    const app = await openTestApp()
    await createWithDigest(app, hashBcrypt(password, 4))
    const held = await holdWrites(app.databaseUrl)
    expect((await verify(app)).status).toBe(200)
    await held.release()
    await untilPasses(async () => {
      expect((await verify(app)).status).toBe(200)
      expect(isCurrentDigest(await storedDigest(app))).toBe(true)
    })
  })

  test('never undoes a change of the password, nor does another one at the same time', async () => {
    const app = await openTestApp()
    const user = await createWithDigest(app, hashBcrypt(password, 4))
    for (let round = 0; round < 5; round++) {
      const old = `old horse ${round}`
      const fresh = `fresh horse ${round}`
      await executeSql(
        app.databaseUrl,
        `UPDATE users SET password_digest = '${hashBcrypt(old, 4)}'`,
      )
      const verifications = Array.from({ length: 5 }, () => verify(app, { password: old }))
      const change = app.http.put(`/users/${user.id}`).send({ user: { password: fresh } })
      const [changed] = await Promise.all([change, ...verifications])
      expect(changed.status).toBe(200)
      // Passwords wait in one queue, so this one comes after those that verifications hash.
      expect((await app.http.post('/users').send(newUserBody({ password: fresh }))).status).toBe(
        201,
      )
      expect((await verify(app, { password: fresh })).status).toBe(200)
      expect((await verify(app, { password: old })).status).toBe(422)
      await executeSql(app.databaseUrl, `DELETE FROM users WHERE id <> ${user.id}`)
    }
  })
})
