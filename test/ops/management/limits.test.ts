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
