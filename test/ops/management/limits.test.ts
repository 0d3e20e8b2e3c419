import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openManagedApp } from '../../support/management-requests.ts'
import { findManagementUrl, temporaryFolder } from '../../support/open-test-app.ts'
import { linesOf, spawnService } from '../../support/spawn-service.ts'

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
  const before = await ops.get('/limits').expect(200)
  expect(before.body).toEqual([
    { type: 'safelist', rule: 'office', dryRun: false, ...ZERO },
    { type: 'throttle', rule: 'posts', dryRun: false, ...ZERO },
    { type: 'throttle', rule: 'tried', dryRun: true, ...ZERO },
  ])
  const members = ['type', 'rule', 'dryRun', 'counted', 'passed', 'refused', 'would_refuse']
  expect(Object.keys(before.body[0])).toEqual(members)
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
  const { body } = await ops.get('/limits?x=ignored').expect(200)
  expect(body).toEqual([
    { type: 'safelist', rule: 'office', dryRun: false, ...ZERO },
    { type: 'throttle', rule: 'posts', dryRun: false, ...ZERO, counted: 2, passed: 1, refused: 1 },
    { type: 'throttle', rule: 'tried', dryRun: true, ...ZERO, counted: 1, passed: 1 },
  ])
})

test('GET /limits is an empty list without limits', async () => {
  const { ops } = await openManagedApp()
  await ops.get('/limits').expect(200, [])
})

test('POST /limits/reload puts the file in force, says what changed, and keeps counting', async () => {
  const { ops, http, limitsPath, logLines } = await openManagedApp({ limits: LIMITS })
  await http.get('/users').expect(200)
  const [posts, tried] = LIMITS.throttle
  const blocklist = [{ name: 'new', path: '/blocked' }]
  writeFileSync(
    limitsPath,
    JSON.stringify({ blocklist, throttle: [{ ...posts, limit: 2 }, tried] }),
  )
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

test('POST /limits/reload without LIMITS_FILE says so', async () => {
  const { ops } = await openManagedApp()
  await ops
    .post('/limits/reload')
    .expect(200, { reloaded: false, message: 'LIMITS_FILE is not set' })
})

test('POST /limits/reload of a wrong file is 422 with every mistake, and the rules stay', async () => {
  const { ops, http, limitsPath } = await openManagedApp({ limits: LIMITS })
  writeFileSync(limitsPath, '{"throttles": [], "throttle": [{ "limit": 0, "period": 60 }]}')
  const { body } = await ops.post('/limits/reload').expect(422)
  expect(body).toEqual({
    message: 'The limits file is invalid, the previous rules stay in force',
    ...{ resource: 'Request', code: 422, status: false, reason: 'limits_invalid' },
    errors: {
      LIMITS_FILE: [
        'line 1: unknown key "throttles", did you mean "throttle"?',
        expect.stringMatching(/^line 1: throttle\[0\]: limit must be/),
      ],
    },
  })
  const problem = await ops.post('/limits/reload').set('Accept', 'application/problem+json')
  expect([problem.status, problem.body.errors]).toEqual([
    422,
    body.errors.LIMITS_FILE.map((detail: string) => ({ detail })),
  ])
  rmSync(limitsPath)
  const gone = await ops.post('/limits/reload').expect(422)
  expect(gone.body.errors.LIMITS_FILE).toEqual([expect.stringMatching(/ENOENT/)])
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
})

test('POST /limits/reload takes a body of JSON only, and needs none', async () => {
  const { ops } = await openManagedApp({ limits: LIMITS })
  const post = () => ops.post('/limits/reload')
  await post().send({}).expect(200)
  await post().set('Content-Type', 'text/plain').send('x').expect(415)
  await post().set('Content-Type', 'application/x-www-form-urlencoded').send('a=b').expect(415)
  await post().set('Content-Type', 'application/json').send('{').expect(400)
})

test('twenty reloads at once end with the newest file in force', async () => {
  const cwd = temporaryFolder()
  const limitsPath = join(cwd, 'limits.json')
  writeFileSync(limitsPath, JSON.stringify(LIMITS))
  const env = { MANAGEMENT_PORT: '0', LIMITS_FILE: limitsPath }
  const service = await spawnService({ cwd, env })
  const url = findManagementUrl(linesOf(service.stdout()))
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, number) => {
      const throttle = [{ name: `of ${number}`, limit: 1, period: 60 }]
      writeFileSync(limitsPath, JSON.stringify({ throttle }))
      if (number % 5 === 0) service.process.kill('SIGHUP')
      return fetch(`${url}/limits/reload`, { method: 'POST' })
    }),
  )
  expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
  const rules = (await (await fetch(`${url}/limits`)).json()) as { rule: string }[]
  expect(rules.map(({ rule }) => rule)).toEqual(['of 19'])
})
