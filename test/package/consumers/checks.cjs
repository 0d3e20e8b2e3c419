/** What the tests of other programs ask of the library. It is copied into projects that have installed it. */

const assert = require('node:assert/strict')
const { mkdtempSync, writeFileSync } = require('node:fs')
const { uptime } = require('node:os')
const { join } = require('node:path')

const ann = { user: { name: 'Ann', email: 'ann@example.com', password: 'correct horse' } }

const wrongLogin = { user: { email: 'ann@example.com', password: 'wrong horse' } }

const HOUR_MS = 3_600_000

/** Each refuses a second request to its path. */
const LIMITS = {
  throttle: [{ path: '/throttled', limit: 1, period: '1 hour' }],
  bans: [{ path: '/banned', maxretry: 1, findtime: 60, bantime: '1 hour' }],
}

const RULES = 'export default { throttle: [{ path: /^.limited$/, limit: 1, period: 60 }] }'

const NDJSON = 'application/x-ndjson'

const get = (http, path, status) => http.get(path).expect(status)

/** A body that supertest does not know. */
const asText = (response, done) => {
  let text = ''
  response.setEncoding('utf8').on('data', part => {
    text += part
  })
  response.on('end', () => done(null, text))
}

/** Everything that the library reads from the package, or loads when it is needed. */
exports.checkUse = async ({ createUserRecords, request }) => {
  const folder = mkdtempSync(join(process.cwd(), 'data-'))
  const LIMITS_FILE = join(folder, 'limits.mjs')
  writeFileSync(LIMITS_FILE, RULES)
  const records = await createUserRecords({ DATABASE_URL: join(folder, 'users.db'), LIMITS_FILE })
  const http = request(records.app)
  await http.post('/users').send(ann).expect(201)
  await http.post('/users').send(ann).expect(422)
  await http.post('/password-verifications').send(ann).expect(200)
  const whole = http.get('/users?q=ann').set('Accept', NDJSON)
  assert.match((await whole.buffer(true).parse(asText)).body, /^\{"id":1,.*"Ann"/)
  // A bundle may lack the call that decodes the path.
  await get(http, '/users/%zz', 400)
  await get(http, '/limited', 404)
  await get(http, '/limited', 429)
  const { text } = await http.get('/docs').set('Accept', 'text/html').expect(200)
  const [, asset] = /href="(docs\/[^"]+)"/.exec(text)
  await get(http, `/${asset}`, 200)
  const document = await get(http, '/openapi.json', 200)
  assert.match(document.body.openapi, /^3\.1\./)
  await records.close()
  const wrong = createUserRecords({ DATABASE_URL: ':memory:', PORT: 1 })
  await assert.rejects(wrong, { name: 'OperatorError' })
}

/** Each kind of wait in the service, while all timers are fake that are so by default, or one of them alone. */
exports.checkAnswers = async ({ createUserRecords, request }, clock) => {
  for (const only of [undefined, ...clock.alone]) {
    const file = join(mkdtempSync(join(process.cwd(), 'data-')), 'users.db')
    for (const DATABASE_URL of only === undefined ? [':memory:', file] : [file]) {
      clock.use(only)
      const records = await createUserRecords({ DATABASE_URL })
      const http = request(records.app)
      await http.post('/users').send(ann).expect(201)
      for (const path of ['/', '/livez', '/readyz', '/users', '/users/1'])
        await get(http, path, 200)
      for (const path of ['/users/2', '/nowhere']) await get(http, path, 404)
      await http.post('/password-verifications').send(wrongLogin).expect(422)
      await http.get('/users').set('Accept', NDJSON).buffer(true).parse(asText).expect(200)
      const { next } = (await get(http, '/users/changes', 200)).body
      if (only === undefined) {
        await get(http, `/users/changes?wait=1&after=${next}`, 200)
        // Further than the machine has been up, which some clocks count from.
        clock.pass((uptime() + 60) * 1000)
        for (const path of ['/users?q=ann', '/users/changes']) await get(http, path, 200)
      }
      await http
        .put('/users/1')
        .send({ user: { name: 'Anna' } })
        .expect(200)
      await http.delete('/users/1').expect(204)
      await records.close()
      clock.end()
    }
  }
}

/** What follows the date of a fake clock. */
exports.checkDates = async ({ createUserRecords, request }, clock) => {
  const records = await createUserRecords({ DATABASE_URL: ':memory:', LIMITS })
  const http = request(records.app)
  clock.use()
  clock.set(Date.parse('2040-01-31'))
  const { body } = await http.post('/users').send(ann).expect(201)
  assert.equal(body.created_at, '2040-01-31T00:00:00.000Z')
  await get(http, '/throttled', 404)
  await get(http, '/throttled', 429)
  clock.pass(HOUR_MS - 1)
  await get(http, '/throttled', 429)
  clock.pass(1)
  await get(http, '/throttled', 404)
  await get(http, '/banned', 404)
  await get(http, '/banned', 403)
  clock.pass(HOUR_MS - 1)
  await get(http, '/banned', 403)
  clock.pass(1)
  await get(http, '/banned', 404)
  clock.end()
  await records.close()
}
