import { rmSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openManagedApp } from '../../support/management-requests.ts'

const LIMITS = {
  safelist: [{ name: 'office', ip: '203.0.113.9' }],
  throttle: [
    { name: 'posts', path: '/users', limit: 1, period: '1 hour' },
    { name: 'tried', path: '/users', limit: 1, period: '1 hour', dryRun: true },
  ],
}

const ZERO = { counted: 0, passed: 0, refused: 0, would_refuse: 0 }

test('GET /limits answers with the rules in force and what they have done', async () => {
  const { ops, http } = await openManagedApp({ limits: LIMITS })
  const office = { type: 'safelist', rule: 'office', dryRun: false, ...ZERO }
  const posts = { type: 'throttle', rule: 'posts', dryRun: false, ...ZERO }
  const tried = { type: 'throttle', rule: 'tried', dryRun: true, ...ZERO }
  const before = await ops.get('/limits').expect(200)
  expect(before.body).toEqual([office, posts, tried])
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
  await ops
    .get('/limits?x=ignored')
    .expect(200, [
      office,
      { ...posts, counted: 2, passed: 1, refused: 1 },
      { ...tried, counted: 1, passed: 1 },
    ])
})

test('without LIMITS_FILE, GET /limits is an empty list and POST /limits/reload says so', async () => {
  const { ops } = await openManagedApp()
  await ops.get('/limits').expect(200, [])
  const message = 'LIMITS_FILE is not set'
  await ops.post('/limits/reload').expect(200, { reloaded: false, message })
})

test('POST /limits/reload puts the file in force, says what changed, and keeps counting', async () => {
  const { ops, http, limitsPath, logLines } = await openManagedApp({ limits: LIMITS })
  await http.get('/users').expect(200)
  const [posts, tried] = LIMITS.throttle
  const blocklist = [{ name: 'new', path: '/blocked' }]
  const throttle = [{ ...posts, limit: 2 }, tried]
  writeFileSync(limitsPath, JSON.stringify({ blocklist, throttle }))
  const changes = {
    came: ['blocklist "new"'],
    went: ['safelist "office"'],
    changed: ['throttle "posts"'],
  }
  await ops.post('/limits/reload').expect(200, { reloaded: true, ...changes })
  await http.get('/blocked').expect(403)
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
  const { body } = await ops.get('/limits')
  expect(body.map(({ rule, counted }: Record<string, unknown>) => [rule, counted])).toEqual([
    ['new', 1],
    ['posts', 3],
    ['tried', 2],
  ])
  expect(logLines).toContainEqual(expect.objectContaining({ msg: 'limits reloaded', ...changes }))
  const nothing = { came: [], went: [], changed: [] }
  await ops.post('/limits/reload').expect(200, { reloaded: true, ...nothing })
})

test('POST /limits/reload of a wrong file is 422 with every mistake, and the rules stay', async () => {
  const { ops, http, limitsPath } = await openManagedApp({ limits: LIMITS })
  writeFileSync(limitsPath, '{"throttles": [], "throttle": [{ "limit": 0, "period": 60 }]}')
  const { body } = await ops.post('/limits/reload').expect(422)
  const mistakes: readonly string[] = body.errors.LIMITS_FILE
  expect(body).toEqual({
    message: 'The limits file is invalid, the previous rules stay in force',
    ...{ resource: 'Request', code: 422, status: false, reason: 'limits_invalid' },
    errors: { LIMITS_FILE: mistakes },
  })
  expect(mistakes).toEqual([
    'line 1: unknown key "throttles", did you mean "throttle"?',
    expect.stringMatching(/^line 1: throttle\[0\]: limit must be/),
  ])
  const problem = await ops.post('/limits/reload').set('Accept', 'application/problem+json')
  const errors = mistakes.map(detail => ({ detail }))
  expect([problem.status, problem.body.errors]).toEqual([422, errors])
  rmSync(limitsPath)
  const gone = await ops.post('/limits/reload').expect(422)
  expect(gone.body.errors.LIMITS_FILE).toEqual([expect.stringMatching(/there is no such file/)])
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
})
