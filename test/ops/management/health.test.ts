import { expect, test } from 'vitest'
import { openManagedApp } from '../../support/management-requests.ts'
import { openTestApp } from '../../support/open-test-app.ts'

test('GET /livez and /readyz answer as on the public port', async () => {
  const { ops, http } = await openManagedApp()
  for (const path of ['/livez', '/readyz', '/readyz?verbose=false', '/readyz?x=1&x']) {
    const [here, there] = [await ops.get(path), await http.get(path)]
    expect([here.status, here.text, here.headers['cache-control']]).toEqual([
      there.status,
      there.text,
      there.headers['cache-control'],
    ])
    expect(here.body).toEqual({ status: 'ok' })
  }
})

test('GET /readyz?verbose=true has each check by name', async () => {
  const { ops } = await openManagedApp()
  const checks = { service: { status: 'ok' }, storage: { status: 'ok' } }
  const { status, body, headers } = await ops.get('/readyz?verbose=true')
  expect([status, body]).toMatchObject([200, { status: 'ok', checks }])
  expect(headers['cache-control']).toBe('no-store')
  const { text } = await ops.head('/readyz?verbose=true').expect(200)
  expect(text).toBeUndefined()
})

test('GET /readyz?verbose=true has a check of the limits where there are limits', async () => {
  const { ops } = await openManagedApp({ limits: { throttle: [{ limit: 9, period: 60 }] } })
  const { body } = await ops.get('/readyz?verbose=true').expect(200)
  expect(body.checks.limits).toEqual({ status: 'ok' })
})

test('without MANAGEMENT_PORT there is no management port', async () => {
  expect((await openTestApp()).managementUrl).toBe('')
})
