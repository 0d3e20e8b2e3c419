import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createClocks } from '../../src/platform/clocks.ts'
import type { Storage } from '../../src/storage/storage.ts'
import { createChangeFeed } from '../../src/users/change-feed.ts'
import { startWebhooks } from '../../src/webhooks/webhook-runner.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { hurryPolls } from '../support/global-timers.ts'
import { openStored } from '../support/stored.ts'
import { until } from '../support/until.ts'
import { namesIn, openReceiver, status } from '../support/webhook-receiver.ts'

hurryPolls()

/** A webhook at the beginning of the feed of a new database. */
async function openDatabase(answer = status(204)) {
  const receiver = await openReceiver(answer)
  const stored = await openStored()
  await stored.storage.webhooks.create({
    ...{ name: 'search', url: receiver.url, secret: randomBytes(32), begunAt: Date.now() },
    ...{ revision: 1, previousSecret: undefined, rotatedUntil: undefined, cursor: undefined },
    ...{ resetAt: undefined, disabled: undefined, failures: 0, failingSince: undefined },
    ...{ lastError: undefined, retryAt: undefined },
  })
  const createUsers = (count: number) =>
    stored.storage.users.create(
      Array.from({ length: count }, (_, number) => {
        return { name: 'Ann', email: `${number}@example.com`, passwordDigest: null }
      }),
    )
  return { ...stored, receiver, createUsers }
}

/** What a process runs, with lists of webhooks that come late from `hold` until `letGo`. */
function openRunner(
  { webhooks, changes, users }: Storage,
  options: Partial<Parameters<typeof startWebhooks>[0]> = {},
) {
  let held: Promise<void> | undefined
  let letGo = () => {}
  let onRead = () => {}
  const feed = createChangeFeed({ changes, maxWaiting: 9, isAllowed: () => true })
  const runner = startWebhooks({
    ...createClocks(),
    store: {
      ...webhooks,
      list: async () => {
        const found = await webhooks.list()
        if (held !== undefined) onRead()
        await held
        return found
      },
    },
    ...{ changes, untilNews: feed.untilNews, log: pino({ level: 'silent' }), isIdle: () => false },
    ...options,
  })
  let serial = 0
  onTestFinished(async () => {
    letGo()
    await runner.stop(0)
    feed.end()
  })
  return {
    stop: runner.stop,
    addUser: async (name: string) => {
      const email = `${name}${serial++}@example.com`
      await users.create([{ name, email, passwordDigest: null }])
      feed.touch()
    },
    /** Resolves once a list was read that is not there yet. */
    hold: () => {
      held = new Promise(resolve => {
        letGo = resolve
      })
      return new Promise<void>(resolve => {
        onRead = resolve
      })
    },
    letGo: () => {
      held = undefined
      letGo()
    },
  }
}

test('what another process has delivered is not sent again by one that knew the webhook before', async () => {
  const { storage, again, receiver } = await openDatabase()
  const first = openRunner(storage)
  const other = openRunner(await again())
  await other.hold()
  await first.addUser('Ann')
  await until(async () => (await storage.webhooks.list())[0]?.cursor !== undefined)
  await first.stop(5000)
  other.letGo()
  await other.addUser('Bea')
  await until(() => namesIn(receiver.posted).includes('Bea'))
  expect(namesIn(receiver.posted)).toEqual(['Ann', 'Bea'])
})

test('a receiver that answers 410 gets nothing more, also while the webhooks are being read', async () => {
  const { storage, receiver } = await openDatabase()
  const runner = openRunner(storage)
  await runner.addUser('Ann')
  await until(() => receiver.posted.length === 1)
  receiver.answerWith(status(410))
  await runner.hold()
  await runner.addUser('Bea')
  await until(async () => (await storage.webhooks.list())[0]?.disabled === 'gone')
  receiver.answerWith(status(204))
  runner.letGo()
  const secondRead = runner.hold()
  await secondRead
  runner.letGo()
  expect(namesIn(receiver.posted)).toEqual(['Ann', 'Bea'])
  expect(await storage.webhooks.list()).toMatchObject([{ disabled: 'gone' }])
})

test('a stop waits for the request that runs, also while the webhooks are being read', async () => {
  let response: ServerResponse | undefined
  const { storage, receiver } = await openDatabase(given => {
    response = given
  })
  const runner = openRunner(storage)
  await runner.addUser('Ann')
  await until(() => receiver.posted.length === 1)
  await runner.hold()
  const stopping = runner.stop(5000)
  runner.letGo()
  // What would cut the request off would have done so by then.
  await storage.webhooks.list()
  await new Promise(resolve => setTimeout(resolve, 50))
  response?.writeHead(204).end()
  expect(await stopping).toBe(true)
  const [webhook] = await storage.webhooks.list()
  expect(webhook?.cursor).toBeDefined()
})

test('after each full request the thread is left to others for as long as all but the receiver took', async () => {
  const { storage, receiver, createUsers } = await openDatabase()
  const clock = createFakeClock()
  receiver.answerWith((response, posted) => {
    clock.advance(250)
    status(204)(response, posted)
  })
  const pauses: number[] = []
  const changes = {
    read: (...page: Parameters<Storage['changes']['read']>) => {
      clock.advance(300)
      return storage.changes.read(...page)
    },
  }
  await createUsers(250)
  openRunner(storage, {
    changes,
    monotonicNow: clock.now,
    wait: async (ms, signal) => {
      pauses.push(ms)
      await sleep(1, undefined, { signal }).catch(() => {})
    },
  })
  await until(() => namesIn(receiver.posted).length === 250)
  expect(receiver.posted.map(({ body }) => body.data.length)).toEqual([100, 100, 50])
  await until(() => pauses.length === 3)
  // The last one was not full.
  expect(pauses).toEqual([300, 300, 200])
})

test('what changes soon after a request comes in one request', async () => {
  const { storage, receiver } = await openDatabase()
  const runner = openRunner(storage, {
    wait: async (ms, signal) => {
      for (const name of receiver.posted.length === 1 ? ['Bea', 'Cid', 'Dan'] : [])
        await runner.addUser(name)
      await sleep(ms, undefined, { signal }).catch(() => {})
    },
  })
  await runner.addUser('Ann')
  await until(() => receiver.posted.length === 2)
  expect(receiver.posted.map(({ body }) => body.data.length)).toEqual([1, 3])
})

test('a stop begins no request, also while the thread is left to others', async () => {
  const { storage, receiver, createUsers } = await openDatabase()
  await createUsers(250)
  let hasPaused = false
  const runner = openRunner(storage, {
    wait: (_ms, signal) => {
      hasPaused = true
      return new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
    },
  })
  await until(() => hasPaused)
  expect(await runner.stop(60_000)).toBe(true)
  expect(receiver.posted).toHaveLength(1)
})

test('a stop leaves no timer behind', async () => {
  const { storage, receiver } = await openDatabase()
  const waits = new Set<number>()
  const runner = openRunner(storage, {
    wait: async (ms, signal) => {
      waits.add(ms)
      await sleep(ms, undefined, { signal }).catch(() => {})
      waits.delete(ms)
    },
  })
  await runner.addUser('Ann')
  await until(() => receiver.posted.length === 1)
  expect(await runner.stop(600_000)).toBe(true)
  await until(() => waits.size === 0)
})
