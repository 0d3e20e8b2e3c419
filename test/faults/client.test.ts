import { expect, test } from 'vitest'
import { createClient, type User, type UserRecordsClient } from '../../client/create-client.ts'
import { collect } from '../support/collect.ts'
import { createRandom, inForm, report } from '../support/faults.ts'
import { findFreePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const LIFE_MS = inForm({ short: 600, long: 10_000 })
const KILLS = inForm({ short: 4, long: 110 })
const WRITERS = 5
const PAUSE_MS = 100

const random = createRandom()
const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

test('the client makes each user once, and follows all changes, while the service is killed', async () => {
  const cwd = temporaryFolder()
  const port = await findFreePort()
  const start = () =>
    spawnService({ cwd, args: ['serve'], env: { PORT: `${port}` }, keepsLog: false })
  let service = await start()
  const users = createClient({ url: service.url, retries: 100 })
  const followed = new Map<number, User>()
  const follower = new AbortController()
  const following = follow(users, followed, follower.signal)
  const writers = Array.from({ length: WRITERS }, (_, writer) => openWriter(users, writer))

  for (let kill = 0; kill < KILLS; kill++) {
    await sleep(random() * LIFE_MS)
    await service.end('SIGKILL')
    await sleep(random() * 500)
    service = await start()
  }
  const written = new Map((await Promise.all(writers.map(writer => writer.stop()))).flat())

  const stored = await collect(users.list({ per_page: 1000 }))
  expect(new Map(stored.map(user => [user.id, user]))).toEqual(written)
  await until(() => followed.size === written.size && isEqual(followed, written))
  follower.abort()
  await following
  report('writes through kills', { kills: KILLS, users: written.size })
})

/** Creates, changes and deletes until it is stopped. Gives the users that must be there then. */
function openWriter(users: UserRecordsClient, writer: number) {
  const written = new Map<number, User>()
  let isStopped = false
  const writing = (async () => {
    for (let serial = 0; !isStopped; serial++) {
      const email = `user${serial}@${writer}.example.com`
      const { id } = await users.create({ name: 'Ann', email })
      written.set(id, await users.update(id, { name: `Ann ${serial}` }))
      if (serial % 3 === 0) {
        expect(await users.delete(id)).toBe(true)
        written.delete(id)
      }
      await sleep(random() * PAUSE_MS)
    }
  })()
  return {
    async stop(): Promise<[number, User][]> {
      isStopped = true
      await writing
      return [...written]
    },
  }
}

async function follow(users: UserRecordsClient, copy: Map<number, User>, signal: AbortSignal) {
  try {
    for await (const { data, reset } of users.changes({}, { signal })) {
      if (reset) copy.clear()
      for (const { id, user } of data) {
        if (user === null) copy.delete(id)
        else copy.set(id, user)
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

function isEqual(one: Map<number, User>, other: Map<number, User>): boolean {
  return [...one].every(([id, user]) => other.get(id)?.updated_at === user.updated_at)
}
