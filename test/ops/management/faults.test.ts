import pino from 'pino'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { openManagementPort } from '../../../src/cli/serve/ports.ts'
import { loadConfig } from '../../../src/config/settings.ts'
import type { Operations } from '../../../src/ops/management/operations-router.ts'
import { openService } from '../../../src/service.ts'
import { openManagedApp } from '../../support/management-requests.ts'
import { executeSql } from '../../support/sql.ts'

test('a fault of the service answers 500 and is logged, and the port goes on', async () => {
  const bans = [{ name: 'login', path: '/login', maxretry: 5, findtime: 60, bantime: 60 }]
  const { ops, databaseUrl, logLines } = await openManagedApp({ limits: { bans } })
  await executeSql(databaseUrl, 'DROP TABLE bans')
  const ban = { rule: 'login', client: '192.0.2.1' }
  for (const ask of [
    () => ops.get('/bans'),
    () => ops.post('/bans').send({ ban }),
    () => ops.delete('/bans?all=true'),
  ]) {
    const { status, body, headers } = await ask()
    expect([status, body.reason]).toEqual([500, 'internal_error'])
    expect(JSON.stringify(body)).not.toMatch(/table|relation|bans/)
    const requestId = headers['x-request-id']
    expect(logLines).toContainEqual(expect.objectContaining({ requestId, level: 50 }))
  }
  await ops.get('/livez').expect(200)
})

test.each([
  ['fails', () => Promise.reject(new Error('broken inside'))],
  ['does not answer', () => new Promise<never>(() => {})],
])('GET /status has no users and webhooks while the database %s', async (_what, ask) => {
  const config = loadConfig({ MANAGEMENT_PORT: '0', DATABASE_URL: ':memory:' })
  const log = pino({ level: 'silent' })
  const service = await openService({ config, log })
  onTestFinished(service.close)
  const operations = { ...service.operations, countUsers: ask, describeWebhooks: ask } as Operations
  const port = await openManagementPort({ config, log, operations })
  onTestFinished(async () => void (await port?.close()))
  const ops = supertest(`http://127.0.0.1:${port?.address.port}`)
  const nothing = { users: null, webhooks: null }
  expect((await ops.get('/status').expect(200)).body).toMatchObject({ ready: true, ...nothing })
})
