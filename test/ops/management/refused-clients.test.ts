import { expect, test } from 'vitest'
import type { ServiceStatus } from '../../../src/ops/management/service-status.ts'
import { newUserBody } from '../../support/builders.ts'
import { ANN, BOB, MINUTE, openLimitedApp } from '../../support/limited-app.ts'

const MANAGED = { env: { MANAGEMENT_PORT: '0' } }

/** A service with these limits and what its status says of refused clients. */
async function openManaged(limits: object | string, env: Record<string, string> = {}) {
  const app = await openLimitedApp(limits, { env: { ...MANAGED.env, ...env } })
  const refused = async (): Promise<ServiceStatus['limits']['refused']> => {
    const status = (await (await fetch(`${app.managementUrl}/status`)).json()) as ServiceStatus
    return status.limits.refused
  }
  const send = async (times: number, line: string, from?: Parameters<typeof app.ask>[1]) => {
    for (let sent = 0; sent < times; sent++) await app.ask(line, from)
  }
  return { ...app, refused, send }
}

const HOUR = 3600

test('GET /status names the clients that each rule refused most, by what it counts', async () => {
  const { ask, refused, send } = await openManaged({
    blocklist: [{ name: 'scanners', path: '/wp*' }],
    bans: [
      { name: 'agents', path: '/x', by: 'header:X-Agent', maxretry: 1, findtime: 60, bantime: 60 },
      { name: 'strict', path: '/y', maxretry: 9, findtime: 60, bantime: 60, mode: 'fail2ban' },
    ],
    throttle: [
      { name: 'pairs', path: '/z', by: ['ip', 'query:q'], limit: 1, period: HOUR },
      { name: 'tried', path: '/z', limit: 1, period: HOUR, dryRun: true },
    ],
    rateLimits: [{ name: 'by mail', to: 1, within: HOUR, only: ['create'], by: 'body:user.email' }],
  })
  expect(await refused()).toEqual([])
  await send(2, 'GET /wp', BOB)
  await send(1, 'GET /wp', ANN)
  await send(1, 'GET /wp', '2001:db8:1:2ff::7')
  await send(3, 'GET /x', { 'X-Agent': 'Bad' })
  await send(2, 'GET /y', ANN)
  await send(3, 'GET /z?q=1', ANN)
  for (let times = 0; times < 2; times++)
    await ask('POST /users', BOB).send(newUserBody({ email: 'Eve@example.com' }))
  const of = (client: string, count: number) => ({ client, refused: count })
  expect(await refused()).toEqual([
    {
      ...{ type: 'blocklist', rule: 'scanners' },
      clients: [of(BOB, 2), of(ANN, 1), of('2001:db8:1:200::/56', 1)],
    },
    { type: 'ban', rule: 'agents', clients: [of('Bad', 2)] },
    { type: 'ban', rule: 'strict', clients: [of(ANN, 2)] },
    { type: 'throttle', rule: 'pairs', clients: [of(JSON.stringify([ANN, '1']), 2)] },
    { type: 'rateLimit', rule: 'by mail', clients: [of('eve@example.com', 1)] },
  ])
})

test('GET /status names at most ten clients a rule, of the last 15 minutes, over a reload too', async () => {
  const limits = { blocklist: [{ name: 'all', path: '/no' }] }
  const { clock, refused, reloadLimits, send } = await openManaged(limits)
  for (let client = 1; client <= 12; client++) await send(client, 'GET /no', `192.0.2.${client}`)
  clock.advance(14 * MINUTE)
  await send(20, 'GET /no', '192.0.2.1')
  await reloadLimits()
  const [{ clients = [] } = {}] = await refused()
  expect(clients.map(({ client, refused }) => `${client} ${refused}`)).toEqual([
    '192.0.2.1 21',
    ...[12, 11, 10, 9, 8, 7, 6, 5, 4].map(count => `192.0.2.${count} ${count}`),
  ])
  clock.advance(MINUTE)
  expect(await refused()).toMatchObject([{ clients: [{ client: '192.0.2.1', refused: 20 }] }])
  clock.advance(14 * MINUTE)
  expect(await refused()).toEqual([])
})

test('a function under `with` that answers has refused the client, and one that goes on has not', async () => {
  const { refused, send } = await openManaged(`{
    throttle: [
      { name: 'answers', path: '/a', limit: 1, period: 60, with: (request, response) => response.sendStatus(418) },
      { name: 'goes on', path: '/b', limit: 1, period: 60, with: (request, response, next) => next() },
    ],
  }`)
  await send(3, 'GET /a')
  await send(3, 'GET /b')
  expect(await refused()).toEqual([
    { type: 'throttle', rule: 'answers', clients: [{ client: ANN, refused: 2 }] },
  ])
})
