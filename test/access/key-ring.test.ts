import { expect, onTestFinished, test, vi } from 'vitest'
import type { ApiKeyUse } from '../../src/access/api-key.ts'
import { hashApiKey } from '../../src/access/api-key.ts'
import { type KeyRing, openKeyRing } from '../../src/access/key-ring.ts'
import { unknownKey } from '../support/api-keys.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openSqliteStored } from '../support/stored.ts'

// What a service does with valid, unknown, expired and malformed keys is in test/http/api-keys.test.ts.

const KEY = unknownKey()

interface TestedKey {
  readonly key: string
  readonly name: string
  readonly expiresAt?: number
}

const A: TestedKey = { key: KEY, name: 'a' }

/** Keys in a database, which another process seems to change, and a ring over them with clocks that the test moves. */
async function open(keys: readonly TestedKey[] = [A]) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { apiKeys } = await openSqliteStored(':memory:')
  const create = ({ key, name, expiresAt }: TestedKey) =>
    apiKeys.create({ name, hash: hashApiKey(key), scopes: ['users:read'], createdAt: 0, expiresAt })
  for (const key of keys) await create(key)
  let failure: Error | undefined
  const recorded: (readonly ApiKeyUse[])[] = []
  const unlessAway = <T>(work: () => Promise<T>) =>
    failure === undefined ? work() : Promise.reject(failure)
  const store = {
    list: () => unlessAway(apiKeys.list),
    recordUses: (uses: readonly ApiKeyUse[]) => {
      recorded.push(uses)
      return unlessAway(() => apiKeys.recordUses(uses))
    },
    revision: () => unlessAway(apiKeys.revision),
  }
  const [wall, steady] = [createFakeClock(), createFakeClock(0)]
  const onReadFailure = vi.fn()
  const onRecordFailure = vi.fn()
  const reports = { onReadFailure, onRecordFailure, onChange: () => {} }
  const ring = await openKeyRing({ store, now: wall.now, monotonicNow: steady.now, ...reports })
  onTestFinished(() => ring.close())
  return {
    ...{ store, recorded, ring, now: wall.now, ...reports, create, revoke: apiKeys.revoke },
    fail: (error?: Error) => {
      failure = error
    },
    /** Lets time pass, and then the ring do what it does twice a second. */
    pass: async (ms: number) => {
      wall.advance(ms)
      steady.advance(ms)
      await vi.advanceTimersByTimeAsync(500)
    },
  }
}

function nameOf(ring: KeyRing, key: string): string {
  const found = ring.recognise(key)
  return typeof found === 'string' ? found : `key ${found.name}`
}

test('KeyRing finds a change that is made while it reads', async () => {
  const { store, ring, create, revoke } = await open()
  const { list } = store
  store.list = async () => {
    const before = await list()
    store.list = list
    await revoke('a')
    return before
  }
  await create({ key: unknownKey(), name: 'b' })
  await ring.follow()
  await ring.follow()
  expect(nameOf(ring, KEY)).toBe('unknown')
})

test('KeyRing never reads twice at once: a slow read delays the next', async () => {
  const { store, ring, create, revoke, pass } = await open()
  const { list } = store
  let release = () => {}
  let reads = 0
  store.list = async () => {
    reads++
    const keys = await list()
    await new Promise<void>(resolve => {
      release = resolve
    })
    return keys
  }
  await revoke('a')
  await pass(500)
  await create({ key: KEY, name: 'b' })
  for (let turn = 0; turn < 3; turn++) await pass(500)
  expect(reads).toBe(1)
  release()
  await pass(500)
  expect([reads, nameOf(ring, KEY)]).toEqual([2, 'unknown'])
  release()
  await pass(500)
  expect(nameOf(ring, KEY)).toBe('key b')
})

test('KeyRing follows the store without waiting for uses that are being recorded', async () => {
  const { store, ring, revoke, pass } = await open()
  let release = () => {}
  store.recordUses = () =>
    new Promise(resolve => {
      release = resolve
    })
  ring.recognise(KEY)
  await revoke('a')
  await pass(500)
  expect(nameOf(ring, KEY)).toBe('unknown')
  release()
})

test('KeyRing records uses of valid keys, at most once a minute for each, with the time of the last one', async () => {
  const [other, expired] = [unknownKey(), unknownKey()]
  const { recorded, ring, pass, now } = await open([
    A,
    { key: other, name: 'b' },
    { key: expired, name: 'c', expiresAt: 1 },
  ])
  const start = now()
  for (const key of [KEY, expired, unknownKey()]) ring.recognise(key)
  await pass(0)
  for (let second = 0; second < 59; second++) {
    await pass(1000)
    ring.recognise(KEY)
  }
  ring.recognise(other)
  await pass(0)
  await pass(1000)
  expect(recorded).toEqual([
    [{ hash: hashApiKey(KEY), usedAt: start }],
    [{ hash: hashApiKey(other), usedAt: start + 59_000 }],
    [{ hash: hashApiKey(KEY), usedAt: start + 59_000 }],
  ])
})

test('KeyRing records uses again a minute after a failure, which is reported once', async () => {
  const { recorded, ring, fail, pass, now, onRecordFailure } = await open()
  const usedAt = now()
  fail(new Error('away'))
  ring.recognise(KEY)
  for (let minute = 0; minute < 3; minute++) await pass(60_000)
  fail()
  for (let minute = 0; minute < 2; minute++) await pass(60_000)
  expect(recorded).toEqual(Array(4).fill([{ hash: hashApiKey(KEY), usedAt }]))
  expect(onRecordFailure).toHaveBeenCalledTimes(1)
})
