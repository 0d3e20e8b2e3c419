import { hashSync as hashArgon2 } from '@node-rs/argon2'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { beforeAll, describe, expect, test } from 'vitest'
import { isCurrentDigest } from '../../src/users/passwords/parse-digest.ts'
import type { TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql, holdWrites, selectRows } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'

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
  const sent = { user: { ...ANN, ...fields } }
  return (await http.post('/users').send(sent).expect(201)).body
}

function verify(fields: Login = {}, { http }: TestApp = app) {
  const { email, password } = { ...ANN, ...fields }
  return http.post(PATH).send({ user: { email, password } })
}

let serial = 0

/** Creates a user as an import does: with a digest of its own. */
async function createWithDigest(digest: string) {
  const user = await create({ email: `digest${serial++}@x.co`, password: null })
  await storeDigest(digest, user)
  return user
}

function storeDigest(digest: string, { id }: { readonly id: number }) {
  const sql = `UPDATE users SET password_digest = '${digest}' WHERE id = ${id}`
  return executeSql(app.databaseUrl, sql)
}

async function storedDigest({ id }: { readonly id: number }): Promise<string> {
  const sql = `SELECT password_digest FROM users WHERE id = ${id}`
  return String((await selectRows(app.databaseUrl, sql))[0]?.password_digest)
}

/** Resolves once the digest is one of this service. */
const untilCurrent = (user: { readonly id: number }) =>
  until(async () => isCurrentDigest(await storedDigest(user)))

const cheap = (password: string) => hashArgon2(password, { memoryCost: 32, timeCost: 1 })

let ann: Record<string, unknown>
beforeAll(async () => {
  ann = await create()
})

describe(`POST ${PATH}`, () => {
  test('answers 200 and the user, however the e-mail is written', async () => {
    for (const email of ['Ann@x.co', ' aNN@X.CO\t']) {
      const { text, headers } = await verify({ email }).expect(200)
      expect(text).toBe(JSON.stringify(ann))
      expect(headers['content-type']).toBe('application/json; charset=utf-8')
      expect(headers['cache-control']).toBe('private, no-cache')
      expect(headers).not.toHaveProperty('etag')
    }
  })

  test('finds an e-mail with a letter whose lower case is ASCII, as lists do', async () => {
    const ken = await create({ email: 'ken@x.co' })
    const { body } = await verify({ email: '\u212aen@x.co' }).expect(200)
    expect(body).toEqual(ken)
    expect((await app.http.get('/users?email=%E2%84%AAen@x.co')).body).toEqual([ken])
  })

  test('takes a password in each form of its characters, and not trimmed', async () => {
    const { email } = await create({ email: 'zoe@x.co', password: 'Zoëfi has a horse' })
    await verify({ email, password: 'Zoe\u0308\ufb01 has a horse' }).expect(200)
    await verify({ email, password: ' Zoëfi has a horse' }).expect(422)
  })

  test('answers alike to an unknown e-mail, a user without a password and a wrong password', async () => {
    const { email } = await create({ email: 'none@x.co', password: null })
    const unknown = ['nobody@x.co', '', 'nul\0@x.co', `${'a'.repeat(300)}@x.co`]
    const logins: Login[] = [
      { password: 'correct horsf' },
      { password: 'nul\0 and \ud800' },
      { email },
      { email, password: '' },
      ...unknown.map(each => ({ email: each })),
    ]
    for (const login of logins) {
      const { status, text, headers } = await verify(login)
      expect({ login, status, body: JSON.parse(text) }).toEqual({ login, status: 422, body: WRONG })
      expect(headers['cache-control']).toBe('no-store')
    }
    const problem = await verify({ email }).set('Accept', 'application/problem+json')
    expect(JSON.parse(problem.text)).toEqual({
      ...{ type: 'about:blank', title: 'Unprocessable Content', status: 422, instance: PATH },
      ...{ detail: 'Wrong email or password', reason: 'wrong_credentials' },
    })
  })

  test('confirms by id who is known already, and answers alike to whoever cannot be', async () => {
    const send = (user: object) => app.http.post(PATH).send({ user })
    const { id } = ann
    const { text } = await send({ id, password: ANN.password }).expect(200)
    expect(text).toBe(JSON.stringify(ann))
    const none = await create({ email: 'no-password@x.co', password: null })
    for (const login of [
      { id, password: 'correct horsf' },
      { id: none.id, password: 'correct horse' },
      { id: none.id, password: '' },
      { id: 999_999, password: 'correct horse' },
      { id: 1e300, password: 'correct horse' },
    ]) {
      expect((await send(login).expect(422)).body).toEqual(WRONG)
    }
    await storeDigest(hashBcrypt('correct horse', 4), none)
    await send({ id: none.id, password: 'correct horse' }).expect(200)
    await untilCurrent(none)
  })

  const BLANK = ["can't be blank"]
  const NO_ID = ['must be a positive integer']
  const WITH_ID = ["can't be sent together with id"]
  const NO_STRING = ['must be a string']
  test.each<[body: object | undefined, errors: object]>([
    [undefined, { user: ['is required'] }],
    [{ user: 'ann' }, { user: ['must be an object'] }],
    [{ user: { password: 'correct horse' } }, { email: BLANK }],
    [{ user: { email: null, password: null } }, { email: BLANK, password: BLANK }],
    [{ user: { email: 1, password: ['x'] } }, { email: NO_STRING, password: NO_STRING }],
    [{ user: { id: 1 } }, { password: BLANK }],
    [{ user: { id: '1', password: 1 } }, { id: NO_ID, password: NO_STRING }],
    ...[0, -1, 1.5, null, true, [1]].map((id): [object, object] => [
      { user: { id, password: 'x' } },
      { id: NO_ID },
    ]),
    [{ user: { id: 1, email: 'ann@x.co', password: 'correct horse' } }, { email: WITH_ID }],
    [{ user: { id: 0, email: null } }, { id: NO_ID, password: BLANK, email: WITH_ID }],
  ])('answers 422 with errors to %j', async (body, errors) => {
    const response = await app.http.post(PATH).send(body).expect(422)
    expect(response.body).toMatchObject({ message: 'Validation failed', resource: 'Request' })
    expect(response.body.errors).toEqual(errors)
  })

  test.each(['x', 'é'.repeat(1024)])(
    'takes a password that is shorter or longer than new ones may be',
    async password => {
      const { email } = await createWithDigest(cheap(password))
      await verify({ email, password }).expect(200)
      expect((await verify({ email, password: password.slice(1) })).body).toEqual(WRONG)
    },
  )

  test('answers alike to every password that is too long, for each user and for none', async () => {
    const password = '😀'.repeat(1025)
    const { email } = await createWithDigest(cheap(password))
    expect((await verify({ email, password })).body).toEqual(WRONG)
    // A text that NFKC would sort for seconds.
    const marks = `a${'\u0301\u0323'.repeat(20_000)}`
    expect((await verify({ email, password: marks })).body).toEqual(WRONG)
    expect((await verify({ email: 'nobody@x.co', password: marks })).body).toEqual(WRONG)
  })

  test('knows POST and OPTIONS only, and ignores an Idempotency-Key', async () => {
    const { status, headers } = await app.http.get(PATH)
    expect({ status, allow: headers.allow }).toEqual({ status: 405, allow: 'POST, OPTIONS' })
    await app.http.options(PATH).expect(204)
    await verify().set('Accept', 'text/html').expect(406)
    await app.http.post(PATH).type('text').send('{}').expect(415)
    for (const key of ['one', 'one', 'not a key']) {
      const response = await verify().set('Idempotency-Key', key).expect(200)
      expect(response.headers).not.toHaveProperty('idempotency-replayed')
    }
  })
})

const { password } = ANN

// Which digests are replaced is in digest.test.ts.
describe('a successful verification', () => {
  test('replaces a digest of less memory, and nothing that clients see', async () => {
    const old = cheap(password)
    const user = await createWithDigest(old)
    const { email } = user
    const { etag = '' } = (await app.http.get('/users')).headers
    await verify({ email, password: 'correct horsf' }).expect(422)
    expect(await storedDigest(user)).toBe(old)
    expect((await verify({ email })).body).toEqual(user)
    await untilCurrent(user)
    const upgraded = await storedDigest(user)
    expect((await verify({ email })).body).toEqual(user)
    await verify({ email, password: 'correct horsf' }).expect(422)
    await app.http.get('/users').set('If-None-Match', etag).expect(304)
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(user)
    expect(await storedDigest(user)).toBe(upgraded)
  })

  test.each([
    '$2b$04$RQtlsC7ue5hODLwZHch7Sel0enVDRiap0oh/n5J50yj5VZhBrQeE2',
    '$pbkdf2-sha1$i=1000$m1MKQWgNIUQIYYzR+t9biw$UGKLicaM2dryfo0bbyDAf3SMcFA',
    '$scrypt$ln=10,r=8,p=1$CiGEkPI+hzDmPAdASGltDQ$RZnYBHOWE1WUr618QLlWxrdAXqKi7+ClZanCUCcCelY',
    '$P$6WqZKeuyw96p4tPBCfeA4z2FFtwsxB1',
    '$5$saltstring$vc6YOOogU4kWVvwga8e9zTFgKcy4tb5LaPxIiPJzqEC',
    '$ldap-sha1$$L55TUjtiq8FBorTWAZ0jy6g129A',
  ])('replaces %s, as a PUT of the same password does', async digest => {
    const user = await createWithDigest(digest)
    await verify({ email: user.email, password: 'correct horsf' }).expect(422)
    await verify({ email: user.email }).expect(200)
    await untilCurrent(user)
    await verify({ email: user.email }).expect(200)
    const other = await createWithDigest(digest)
    const sent = { user: { password } }
    expect((await app.http.put(`/users/${other.id}`).send(sent)).body).toEqual(other)
    await untilCurrent(other)
  })

  test('is answered while the database takes no writes, and a later one replaces the digest', async () => {
    const user = await createWithDigest(hashBcrypt(password, 4))
    const { email } = user
    const held = await holdWrites(app.databaseUrl)
    await verify({ email }).expect(200)
    await held.release()
    await untilPasses(async () => {
      await verify({ email }).expect(200)
      expect(isCurrentDigest(await storedDigest(user))).toBe(true)
    })
  })

  // bcrypt ignores what follows 72 bytes. Three bytes of the first become two in NFKC.
  test.each(['\ufb01', 'x'])(
    'keeps a digest of bcrypt that cannot tell how the password ends, and obeys it (%j)',
    async first => {
      const start = first + 'x'.repeat(72 - Buffer.byteLength(first))
      const digest = hashBcrypt(`${start} of the owner`, 4)
      const user = await createWithDigest(digest)
      const { email } = user
      for (const end of [' of another', '', '\0', ' of the owner']) {
        await verify({ email, password: start + end }).expect(200)
      }
      await verify({ email, password: `y${start.slice(1)} of the owner` }).expect(422)
      // Passwords wait in one queue, so this one comes after those that verifications would hash.
      await create({ email: `after${user.id}@x.co` })
      expect(await storedDigest(user)).toBe(digest)
    },
  )

  // 71 bytes, and 106 as some keyboards compose it: the form that the digest is of decides.
  test.each(['NFC', 'NFD'])(
    'replaces a digest of bcrypt that judges all of the password, typed in %s',
    async form => {
      const longest = 'é'.repeat(35).padEnd(36, 'x')
      const user = await createWithDigest(hashBcrypt(longest, 4))
      await verify({ email: user.email, password: longest.normalize(form) }).expect(200)
      await untilCurrent(user)
      await verify({ email: user.email, password: longest }).expect(200)
      await verify({ email: user.email, password: `${longest}x` }).expect(422)
    },
  )

  test('never undoes a change of the password, nor does another one at the same time', async () => {
    const user = await createWithDigest(hashBcrypt(password, 4))
    const { email } = user
    for (let round = 0; round < 2; round++) {
      const old = { email, password: `old horse ${round}` }
      const fresh = { email, password: `fresh horse ${round}` }
      await storeDigest(hashBcrypt(old.password, 4), user)
      const verifications = Array.from({ length: 5 }, () => verify(old))
      const change = { user: { password: fresh.password } }
      const [changed] = await Promise.all([
        app.http.put(`/users/${user.id}`).send(change),
        ...verifications,
      ])
      expect(changed.status).toBe(200)
      // Passwords wait in one queue, so this one comes after those that verifications hash.
      await create({ email: `later${round}@x.co` })
      await verify(fresh).expect(200)
      await verify(old).expect(422)
    }
  })
})

describe('PUT /users/{id} of a user whose digest is of bcrypt', () => {
  const put = ({ id }: { readonly id: number }, password: string) =>
    app.http.put(`/users/${id}`).send({ user: { password } }).expect(200)

  test.each(['', ' of the owner'])(
    'with a password of 72 bytes or more is a change, also of the same password, until it is of Argon2id: %j',
    async end => {
      const owned = 'é'.repeat(36) + end
      const user = await createWithDigest(hashBcrypt(owned, 4))
      const { email } = user
      const { body } = await put(user, owned)
      expect(body.updated_at > user.updated_at).toBe(true)
      expect(isCurrentDigest(await storedDigest(user))).toBe(true)
      await verify({ email, password: `${'é'.repeat(36)} of another` }).expect(422)
      await verify({ email, password: 'é'.repeat(35) }).expect(422)
      expect((await put(user, owned)).body).toEqual(body)
    },
  )

  test('with the same password of 71 bytes is no change, and replaces the digest', async () => {
    const longest = 'x'.repeat(71)
    const user = await createWithDigest(hashBcrypt(longest, 4))
    expect((await put(user, longest)).body).toEqual(user)
    await untilCurrent(user)
  })
})
