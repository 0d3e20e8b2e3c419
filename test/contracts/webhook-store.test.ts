import { describe, expect, test } from 'vitest'
import { MAX_WEBHOOKS, type StoredWebhook } from '../../src/webhooks/webhook.ts'
import { openStored } from '../support/stored.ts'

function webhookNamed(name: string, change: Partial<StoredWebhook> = {}): StoredWebhook {
  return {
    ...{ name, url: 'https://example.com/hook', secret: Buffer.alloc(32, 1), revision: 0 },
    ...{ previousSecret: undefined, rotatedUntil: undefined, cursor: 'c0', begunAt: 1000 },
    ...{ resetAt: undefined, disabled: undefined, failures: 0, failingSince: undefined },
    ...{ lastError: undefined, retryAt: undefined },
    ...change,
  }
}

const FAILURE = { failures: 2, failingSince: 5, lastError: 'it answered 500', retryAt: 9 }

/** A store as a running service opens it, with webhooks, and the same as another process opens it. */
async function open(...webhooks: readonly StoredWebhook[]) {
  const { storage, again } = await openStored()
  const store = storage.webhooks
  for (const webhook of webhooks) await store.create(webhook)
  return { store, other: (await again()).webhooks }
}

describe('WebhookStore', () => {
  test('list has all webhooks as they were created, by name', async () => {
    const full = webhookNamed('a', {
      ...{ previousSecret: Buffer.alloc(32, 2), rotatedUntil: 8.64e15, cursor: undefined },
      ...{ resetAt: 7, disabled: 'gone', ...FAILURE },
    })
    const { other } = await open(webhookNamed('b'), full, webhookNamed('B'))
    expect(await other.list()).toEqual([webhookNamed('B'), full, webhookNamed('b')])
  })

  test('create refuses a name that is taken, and one webhook too many, at once too', async () => {
    const { store, other } = await open(webhookNamed('taken'))
    expect(await other.create(webhookNamed('taken', { begunAt: 2 }))).toBe('taken')
    const created = await Promise.all(
      Array.from({ length: 2 * MAX_WEBHOOKS }, (_, at) =>
        (at % 2 === 0 ? store : other).create(webhookNamed(`hook${at}`)),
      ),
    )
    expect(created.filter(outcome => outcome === 'created')).toHaveLength(MAX_WEBHOOKS - 1)
    expect(await store.create(webhookNamed('taken'))).toBe('full')
    expect(await store.list()).toHaveLength(MAX_WEBHOOKS)
  })

  test('rotate keeps the previous secret, and nothing else changes', async () => {
    const { store, other } = await open(webhookNamed('hook', FAILURE))
    const secret = Buffer.alloc(32, 3)
    expect(await other.rotate('hook', secret, 77)).toBe(true)
    expect(await store.list()).toEqual([
      webhookNamed('hook', {
        ...{ ...FAILURE, secret, previousSecret: Buffer.alloc(32, 1), rotatedUntil: 77 },
        revision: 1,
      }),
    ])
  })

  test('replay begins again, later than before whatever the clock shows', async () => {
    const { store } = await open(webhookNamed('hook', FAILURE))
    await store.replay('hook', { begunAt: 2000, cursor: undefined })
    expect(await store.list()).toEqual([
      webhookNamed('hook', { cursor: undefined, begunAt: 2000, revision: 1 }),
    ])
    await store.replay('hook', { begunAt: 1500, cursor: 'c1' })
    expect(await store.list()).toMatchObject([{ begunAt: 2001, cursor: 'c1' }])
  })

  test('resume enables it and lets it try at once', async () => {
    const { store } = await open(webhookNamed('hook', { ...FAILURE, disabled: 'gone' }))
    expect(await store.resume('hook')).toBe(true)
    const { failingSince, lastError } = FAILURE
    expect(await store.list()).toEqual([
      webhookNamed('hook', { revision: 1, failingSince, lastError }),
    ])
  })

  test('what is not there is neither changed nor removed', async () => {
    const { store } = await open(webhookNamed('hook'))
    const calls = [
      store.rotate('no', Buffer.alloc(32), 1),
      store.replay('no', { begunAt: 1, cursor: undefined }),
      store.resume('no'),
    ]
    expect(await Promise.all([...calls, store.remove('no')])).toEqual([false, false, false, false])
    expect(await store.remove('hook')).toBe(true)
    expect(await store.list()).toEqual([])
  })

  test('record stores the progress of who has the lease, of the revision that it knows', async () => {
    const { store, other } = await open(webhookNamed('hook'))
    const [hook] = await store.list()
    if (hook === undefined) throw new Error('it is not there')
    const progress = {
      ...hook,
      ...FAILURE,
      cursor: 'c1',
      begunAt: 3,
      resetAt: 4,
      disabled: 'gone' as const,
    }
    expect(await store.record(hook, progress, 'me')).toBe(false)
    expect(await store.takeLease('me', await store.lease())).toBe(true)
    expect(await other.record(hook, progress, 'another')).toBe(false)
    expect(await store.record(hook, progress, 'me')).toBe(true)
    expect(await other.list()).toEqual([progress])
    await other.replay('hook', { begunAt: 10, cursor: undefined })
    expect(await store.record(hook, progress, 'me')).toBe(false)
    await other.remove('hook')
    expect(await store.record(hook, progress, 'me')).toBe(false)
  })

  test('the lease is taken by one of those who saw it free, and only as they saw it', async () => {
    const { store, other } = await open()
    const free = await store.lease()
    expect(free.holder).toBe('')
    const taken = await Promise.all([store.takeLease('one', free), other.takeLease('two', free)])
    expect(taken.filter(Boolean)).toHaveLength(1)
    const holder = taken[0] ? 'one' : 'two'
    const seen = await other.lease()
    expect(seen.holder).toBe(holder)
    expect(await store.renewLease(holder)).toBe(true)
    expect(await other.takeLease('three', seen)).toBe(false)
    expect(await other.takeLease('three', await other.lease())).toBe(true)
    expect(await store.renewLease(holder)).toBe(false)
    await store.releaseLease(holder)
    expect((await store.lease()).holder).toBe('three')
    await other.releaseLease('three')
    expect((await store.lease()).holder).toBe('')
  })
})
