import { expect, test } from 'vitest'
import { createRandom, inForm, report } from '../support/faults.ts'
import { readAllUsers } from '../support/json-requests.ts'
import { createKeepAliveClient } from '../support/keep-alive-client.ts'
import { databaseIn } from '../support/new-database.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const USERS = 100

const CLIENTS = 4

test('kill -9 in the middle of requests with many users leaves all or none of each, and all that were acknowledged', async () => {
  const random = createRandom()
  const cwd = temporaryFolder()
  const env = { DATABASE_URL: await databaseIn(cwd) }
  /** Whether each request that was sent was answered, by the beginning of its addresses. */
  const sent = new Map<string, boolean>()
  let acknowledged = 0
  for (let kill = 0; kill < inForm({ short: 6, long: 200 }); kill++) {
    const service = await spawnService({ cwd, env })
    const enough = acknowledged + random() * 20
    const writing = Array.from({ length: CLIENTS }, () => write(service))
    await until(() => acknowledged >= enough, 1)
    await Promise.all([...writing, service.end('SIGKILL')])
  }
  const service = await spawnService({ cwd, env })
  const found = new Map<string, number>()
  for (const line of (await readAllUsers(service.url)).values()) {
    const { name } = JSON.parse(line)
    found.set(name, (found.get(name) ?? 0) + 1)
  }
  const answered = Array.from(sent, ([name, wasAnswered]) => [name, wasAnswered, found.get(name)])
  const isWrong = ([, wasAnswered, count]: (typeof answered)[number]) =>
    count !== USERS && (wasAnswered || count !== undefined)
  expect(answered.filter(isWrong)).toEqual([])
  expect(acknowledged).toBeGreaterThan(0)
  report('killed with many users', { requests: sent.size, acknowledged })

  async function write({ port }: SpawnedService): Promise<void> {
    const client = createKeepAliveClient(port)
    for (let isThere = true; isThere; ) {
      const name = `r${sent.size}`
      sent.set(name, false)
      const users = Array.from({ length: USERS }, (_, nth) => ({
        ...{ name, email: `${name}-${nth}@example.com` },
      }))
      const body = JSON.stringify({ users })
      const answer = await client.ask({ method: 'POST', path: '/users', body })
      isThere = answer !== undefined
      if (answer?.status !== 200) continue
      sent.set(name, true)
      acknowledged++
    }
    client.close()
  }
})
