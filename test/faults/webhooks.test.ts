import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { createRandom } from '../support/faults.ts'
import { readAllUsers } from '../support/json-requests.ts'
import { databaseIn } from '../support/new-database.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { executeSql } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'
import { addWebhook, openReceiver, type Posted } from '../support/webhook-receiver.ts'
import { expectRightCopies } from './followed-writes.ts'
import { apply } from './followers.ts'

/** As a command would, to a cursor that no release has written. */
const LOSE_CURSOR = `UPDATE webhooks SET cursor = 'lost', revision = revision + 1`

test('a receiver that fails has exactly the users, whichever service is killed, and gets one request at a time', async () => {
  const cwd = temporaryFolder()
  const random = createRandom()
  const databaseUrl = await databaseIn(cwd)
  const options = { cwd, env: { DATABASE_URL: databaseUrl }, keepsLog: false }
  const services: SpawnedService[] = [await spawnService(options)]
  const receiver = await openFailingReceiver(random)
  await addWebhook(databaseUrl, 'search', receiver.url, '--from', 'start')
  services.push(await spawnService(options))

  await expectRightCopies({
    urls: () => services.map(({ url }) => url),
    disturb: async round => {
      // The first is the older one, and the one that delivers unless it was the younger that was killed before.
      const [killed] = services.splice(random() < 0.7 ? 0 : 1, 1)
      await killed?.end('SIGKILL')
      receiver.noteKill()
      services.push(await spawnService(options))
      if (round % 2 === 1) await executeSql(databaseUrl, LOSE_CURSOR)
      // Another takes over within 20 seconds.
      const before = receiver.progress()
      await until(() => receiver.progress() > before, 50)
    },
  })

  receiver.recover()
  const users = await readAllUsers(String(services[0]?.url))
  await untilPasses(() => expect(receiver.copy).toEqual(users), 50)
  expect(receiver.mistakes).toEqual([])
  expect(receiver.resets()).toBeGreaterThan(0)
  for (const service of services) await service.end('SIGTERM')
})

/** Keeps a copy of the users, and fails at random, before or after it has taken what came. */
async function openFailingReceiver(random: () => number) {
  const copy = new Map<number, unknown>()
  const bodies = new Map<string, string>()
  const mistakes: string[] = []
  /** Requests under way, each with how many kills lay before it. */
  const running = new Map<ServerResponse, number>()
  let kills = 0
  let taken = 0
  let resets = 0
  let isCalm = false
  let hasBroken = false

  function take({ type, data }: Posted['body']): void {
    taken++
    if (type === 'users.reset') {
      resets++
      copy.clear()
    }
    for (const { id, user } of data) apply(copy, { id, user: user && JSON.stringify(user) })
  }

  function check({ headers, text }: Posted): void {
    const id = String(headers['webhook-id'])
    if ((bodies.get(id) ?? text) !== text) mistakes.push(`two contents with the id ${id}`)
    bodies.set(id, text)
    if ([...running.values()].includes(kills)) mistakes.push(`${id} overlaps another`)
  }

  const receiver = await openReceiver((response, posted) => {
    check(posted)
    running.set(response, kills)
    response.on('close', () => running.delete(response))
    const dice = isCalm ? 1 : random()
    const isTaken = dice >= 0.2 || random() < 0.5
    if (isTaken) take(posted.body)
    // After two broken connections in a row, the next try is half a minute later.
    const breaks = dice < 0.05 && !hasBroken
    hasBroken = breaks
    const respond = () => {
      if (breaks) response.destroy()
      else if (dice < 0.2) response.writeHead(500, { 'Retry-After': '0' }).end()
      else response.writeHead(204).end()
    }
    const isSlow = dice >= 0.2 && dice < 0.3
    setTimeout(respond, random() * (isSlow ? 1000 : 10))
  })
  return {
    url: receiver.url,
    copy,
    mistakes,
    /** How many requests it has taken. */
    progress: () => taken,
    resets: () => resets,
    noteKill: () => {
      kills++
    },
    /** From now on it does not fail. */
    recover: () => {
      isCalm = true
    },
  }
}
