import { join } from 'node:path'
import { expect, test } from 'vitest'
import { addKey, withKeyStore } from '../support/api-keys.ts'
import type { KeepAliveClient } from '../support/keep-alive-client.ts'
import { databaseIn } from '../support/new-database.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnTeam } from '../support/spawn-team.ts'
import { until } from '../support/until.ts'

const WORKERS = 2

async function open(env: Readonly<Record<string, string>>) {
  const cwd = temporaryFolder()
  const databaseUrl = await databaseIn(cwd, join('data', 'users.db'))
  const team = await spawnTeam(WORKERS, { cwd, env: { DATABASE_URL: databaseUrl, ...env } })
  const clients: KeepAliveClient[] = []
  for (let worker = 1; worker <= WORKERS; worker++) {
    clients.push(...(await team.connectTo(worker, 1)))
  }
  /** What each worker answers. */
  const statuses = (headers: Record<string, string>) =>
    Promise.all(
      clients.map(async client => {
        const answer = await client.ask({ method: 'GET', path: '/users', headers })
        return answer?.status
      }),
    )
  return { team, databaseUrl, statuses }
}

test('every worker obeys a new and a revoked key, and its last use is recorded', async () => {
  const { team, databaseUrl, statuses } = await open({ API_KEYS: 'required' })
  expect(await statuses({})).toEqual([401, 401])
  const before = Date.now()
  const headers = { Authorization: `Bearer ${await addKey(databaseUrl, { name: 'web' })}` }
  await until(async () => (await statuses(headers)).every(status => status === 200))
  await until(() =>
    withKeyStore(databaseUrl, async store => {
      const [key] = await store.list()
      return (key?.lastUsedAt ?? 0) >= before
    }),
  )
  await withKeyStore(databaseUrl, store => store.revoke('web'))
  await until(async () => (await statuses(headers)).every(status => status === 401))
  const served = team.lines().filter(({ status, key }) => status === 200 && key === 'web')
  expect(new Set(served.map(({ worker }) => worker))).toEqual(new Set([1, 2]))
  expect(
    await team.untilLogged('API_KEYS is required, but there is no key: make one with keys create'),
  ).toHaveLength(1)
})

test('a refused host is logged once for all workers', async () => {
  const { team, statuses } = await open({ ALLOWED_HOSTS: '' })
  expect(await statuses({ Host: 'evil.example' })).toEqual([421, 421])
  expect(await statuses({ Host: 'other.example' })).toEqual([421, 421])
  const message = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  const lines = await team.untilLogged(message, 2)
  expect(lines.map(({ host }) => host)).toEqual(['evil.example', 'other.example'])
})
