import pino from 'pino'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { openManagementPort } from '../../../src/cli/serve/ports.ts'
import { loadConfig } from '../../../src/config/settings.ts'
import type { Operations } from '../../../src/ops/management/operations-router.ts'
import { createClocks } from '../../../src/platform/clocks.ts'
import { openService } from '../../../src/service.ts'
import type { UserRouterOptions } from '../../../src/users/user-router.ts'

const broken = (): never => {
  throw new Error('broken inside')
}

const USERS = { users: {} as UserRouterOptions, readAnew: () => {}, clocks: createClocks() }

async function openOps(options: Parameters<typeof openManagementPort>[0]) {
  const port = await openManagementPort(options)
  onTestFinished(async () => void (await port?.close()))
  return supertest(`http://127.0.0.1:${port?.address.port}`)
}

/** Fail at once or later. */
const OPERATIONS: readonly Operations[] = [
  {
    report: broken,
    count: broken,
    countUsers: broken,
    describeWebhooks: broken,
    metrics: { report: broken, render: broken },
    checks: broken,
    reloadLimits: broken,
    ...USERS,
    bans: { moment: broken, list: broken, add: broken, lift: broken },
  },
  {
    report: async () => broken(),
    count: async () => broken(),
    countUsers: async () => broken(),
    describeWebhooks: async () => broken(),
    metrics: { report: async () => broken(), render: async () => broken() },
    checks: async () => broken(),
    reloadLimits: async () => broken(),
    ...USERS,
    bans: {
      moment: async () => broken(),
      list: async () => broken(),
      add: async () => broken(),
      lift: async () => broken(),
    },
  },
]

test.each(OPERATIONS)(
  'a fault of the service answers 500 and is logged, and the port goes on',
  async operations => {
    const lines: string[] = []
    const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) })
    const config = loadConfig({ MANAGEMENT_PORT: '0' })
    const ops = await openOps({ config, log, operations })
    const ban = { rule: 'login', client: '192.0.2.1' }
    for (const ask of [
      () => ops.get('/status'),
      () => ops.get('/metrics'),
      () => ops.get('/limits'),
      () => ops.get('/readyz'),
      () => ops.get('/bans'),
      () => ops.post('/bans').send({ ban }),
      () => ops.delete('/bans?all=true'),
      () => ops.post('/limits/reload').send({}),
    ]) {
      const { status, body } = await ask()
      expect([status, body.reason]).toEqual([500, 'internal_error'])
      expect(JSON.stringify(body)).not.toContain('broken')
      expect(lines.at(-1)).toContain('broken inside')
    }
    expect(lines).toHaveLength(8)
    await ops.get('/livez').expect(200)
  },
)

test.each([
  ['fails', () => Promise.reject(new Error('broken inside'))],
  ['does not answer', () => new Promise<never>(() => {})],
])('GET /status has no users and webhooks while the database %s', async (_what, ask) => {
  const config = loadConfig({ MANAGEMENT_PORT: '0', DATABASE_URL: ':memory:' })
  const log = pino({ level: 'silent' })
  const service = await openService({ config, log })
  onTestFinished(service.close)
  const operations = { ...service.operations, countUsers: ask, describeWebhooks: ask } as Operations
  const ops = await openOps({ config, log, operations })
  const nothing = { users: null, webhooks: null }
  expect((await ops.get('/status').expect(200)).body).toMatchObject({ ready: true, ...nothing })
})
