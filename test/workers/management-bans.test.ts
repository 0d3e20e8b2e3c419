import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { spawnManagedTeam, sumOf } from '../support/managed-team.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { until } from '../support/until.ts'

const RULES = {
  bans: [{ name: 'login', path: '/login', maxretry: 5, findtime: '1 minute', bantime: '1 hour' }],
}

async function openWithRules() {
  const cwd = temporaryFolder()
  const rulesPath = join(cwd, 'limits.json')
  writeFileSync(rulesPath, JSON.stringify(RULES))
  const env = { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1' }
  const team = await spawnManagedTeam({ cwd, env })
  const [[one], [two]] = [await team.connectTo(1, 1), await team.connectTo(2, 1)]
  const askEach = (headers: Readonly<Record<string, string>>) =>
    Promise.all(
      [one, two].map(async client => {
        const answer = await client?.ask({ method: 'GET', path: '/users', headers })
        return answer?.status
      }),
    )
  return { team, rulesPath, askEach }
}

const CLIENT = '203.0.113.9'

const OF_CLIENT = { 'X-Forwarded-For': CLIENT }

const ADD_BAN = {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ ban: { rule: 'login', client: CLIENT, for: '1 hour' } }),
}

test('bans that the port adds and lifts are obeyed by all workers', async () => {
  const { team, askEach } = await openWithRules()
  expect(await askEach(OF_CLIENT)).toEqual([200, 200])
  expect((await team.ask('/bans', ADD_BAN)).status).toBe(201)
  await until(async () => (await askEach(OF_CLIENT)).every(status => status === 403))
  expect(await (await team.ask('/bans')).json()).toMatchObject([{ rule: 'login', client: CLIENT }])
  await until(async () => sumOf(await team.samples(), 'limit_bans') === 1)
  const lifted = await team.ask(`/bans?client=${CLIENT}`, { method: 'DELETE' })
  expect(await lifted.json()).toEqual({ lifted: 1 })
  await until(async () => (await askEach(OF_CLIENT)).every(status => status === 200))
  expect(await (await team.ask('/bans')).json()).toEqual([])
})

test('the port lists and lifts at once what a worker has just banned', async () => {
  const { team, askEach } = await openWithRules()
  for (const last of [1, 2, 3, 4]) {
    const client = `203.0.113.${last}`
    const headers = { 'X-Forwarded-For': client }
    const [connection] = await team.connectTo(1 + (last % 2), 1)
    for (let strike = 0; strike < 5; strike++)
      await connection?.ask({ method: 'GET', path: '/login', headers })
    expect(await (await team.ask(`/bans?client=${client}`)).json()).toHaveLength(1)
    await connection?.ask({ method: 'GET', path: '/users', headers })
    const lifted = await team.ask(`/bans?client=${client}`, { method: 'DELETE' })
    expect(await lifted.json()).toEqual({ lifted: 1 })
    expect(await askEach(headers)).toEqual([200, 200])
  }
})

test.each([1, 2])('bans are added and listed while worker %d is stopped', async stopped => {
  const { team, askEach } = await openWithRules()
  await team.alone(3 - stopped, async () => {
    expect((await team.ask('/bans', ADD_BAN)).status).toBe(201)
    expect(await (await team.ask('/bans')).json()).toHaveLength(1)
  })
  await until(async () => (await askEach(OF_CLIENT)).every(status => status === 403))
})

test('the counts of a rule are those of all workers', async () => {
  const { team, askEach } = await openWithRules()
  await team.ask('/bans', ADD_BAN)
  await until(async () => (await askEach(OF_CLIENT)).every(status => status === 403))
  const refused = async () => {
    const rules = (await (await team.ask('/limits')).json()) as { refused: number }[]
    return rules[0]?.refused ?? 0
  }
  await until(async () => (await refused()) > 1)
  const before = await refused()
  expect(await askEach(OF_CLIENT)).toEqual([403, 403])
  await until(async () => (await refused()) >= before + 2)
  expect(await refused()).toBe(before + 2)
})

const AGENT = { 'User-Agent': 'unwanted' }

const BLOCKING = { blocklist: [{ name: 'agent', userAgent: AGENT['User-Agent'] }] }

test('POST /limits/reload puts rules in force in all workers or, if they are wrong, in none', async () => {
  const { team, rulesPath, askEach } = await openWithRules()
  expect(await askEach(AGENT)).toEqual([200, 200])
  writeFileSync(rulesPath, JSON.stringify(BLOCKING))
  const reloaded = await team.ask('/limits/reload', { method: 'POST' })
  expect(reloaded.status).toBe(200)
  expect(await askEach(AGENT)).toEqual([403, 403])
  const rules = await (await team.ask('/limits')).json()
  expect(rules).toMatchObject([{ type: 'blocklist', rule: 'agent', refused: 2 }])
  writeFileSync(rulesPath, '{')
  const refused = await team.ask('/limits/reload', { method: 'POST' })
  expect(refused.status).toBe(422)
  expect(await askEach(AGENT)).toEqual([403, 403])
})
