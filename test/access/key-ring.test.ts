import { expect, onTestFinished, test, vi } from 'vitest'
import type { ApiKeyStore, ApiKeyUse, StoredApiKey } from '../../src/access/api-key.ts'
import { hashApiKey } from '../../src/access/api-key.ts'
import { type KeyRing, openKeyRing } from '../../src/access/key-ring.ts'
import { unknownKey } from '../support/api-keys.ts'
import { createFakeClock } from '../support/fake-clock.ts'

// What a service does with valid, unknown, expired and malformed keys is in test/http/api-keys.test.ts.

const KEY = unknownKey()

function stored(key: string, change: Partial<StoredApiKey> = {}): StoredApiKey {
  return {
    ...{ name: 'a', hash: hashApiKey(key), scopes: ['users:read'], createdAt: 0 },
    ...{ expiresAt: undefined, lastUsedAt: undefined },
    ...change,
  }
}

/** A store in memory whose keys another process seems to change, and a ring over it with clocks that the test moves. */
async function open(keys: StoredApiKey[] = [stored(KEY)]) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const state = { keys, revision: 0, failure: undefined as Error | undefined, lists: 0 }
  const recorded: (readonly ApiKeyUse[])[] = []
  const failing = async <T>(value: T): Promise<T> => {
    if (state.failure !== undefined) throw state.failure
    return value
  }
  const store: Omit<ApiKeyStore, 'create' | 'revoke'> = {
    list: () => {
      state.lists++
      return failing(state.keys)
    },
    recordUses: uses => {
      recorded.push(uses)
      return failing(undefined)
    },
    revision: () => failing(String(state.revision)),
  }
  const [wall, steady] = [createFakeClock(), createFakeClock(0)]
  const onReadFailure = vi.fn()
  const onRecordFailure = vi.fn()
  const reports = { onReadFailure, onRecordFailure, onChange: () => {} }
  const ring = await openKeyRing({ store, now: wall.now, monotonicNow: steady.now, ...reports })
  onTestFinished(() => ring.close())
  return {
    ...{ state, store, recorded, ring, now: wall.now, ...reports },
    change: (changed: StoredApiKey[]) => {
      state.keys = changed
      state.revision++
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

test('KeyRing keeps the last keys while the store fails, which is reported once', async () => {
  const { state, ring, change, pass, onReadFailure } = await open()
  const failure = new Error('away')
  state.failure = failure
  change([])
  for (let turn = 0; turn < 3; turn++) await pass(500)
  expect(nameOf(ring, KEY)).toBe('key a')
  expect(onReadFailure.mock.calls).toEqual([[failure]])
  state.failure = undefined
  await pass(500)
  expect(nameOf(ring, KEY)).toBe('unknown')
  state.failure = failure
  await pass(500)
  expect(onReadFailure).toHaveBeenCalledTimes(2)
})

test('KeyRing finds a change that is made while it reads', async () => {
  const { store, ring, change } = await open()
  const { list } = store
  store.list = async () => {
    const before = await list()
    store.list = list
    change([])
    return before
  }
  change([stored(KEY)])
  await ring.follow()
  await ring.follow()
  expect(nameOf(ring, KEY)).toBe('unknown')
})

test('KeyRing never reads twice at once: a slow read delays the next', async () => {
  const { state, store, ring, change, pass } = await open()
  let release = (_keys: StoredApiKey[]) => {}
  let reads = 0
  store.list = () => {
    reads++
    return new Promise(resolve => {
      release = resolve
    })
  }
  change([])
  await pass(500)
  change([stored(KEY, { name: 'b' })])
  for (let turn = 0; turn < 3; turn++) await pass(500)
  expect(reads).toBe(1)
  release([])
  await pass(500)
  expect([reads, nameOf(ring, KEY)]).toEqual([2, 'unknown'])
  release(state.keys)
  await pass(500)
  expect(nameOf(ring, KEY)).toBe('key b')
})

test('KeyRing follows the store without waiting for uses that are being recorded', async () => {
  const { store, ring, change, pass } = await open()
  let release = () => {}
  store.recordUses = () =>
    new Promise(resolve => {
      release = resolve
    })
  ring.recognise(KEY)
  change([])
  await pass(500)
  expect(nameOf(ring, KEY)).toBe('unknown')
  release()
})

test('KeyRing records uses of valid keys, at most once a minute for each, with the time of the last one', async () => {
  const [other, expired] = [unknownKey(), unknownKey()]
  const { recorded, ring, pass, now } = await open([
    stored(KEY),
    stored(other, { name: 'b' }),
    stored(expired, { name: 'c', expiresAt: 1 }),
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
  const { state, recorded, ring, pass, now, onRecordFailure } = await open()
  const usedAt = now()
  state.failure = new Error('away')
  ring.recognise(KEY)
  for (let minute = 0; minute < 3; minute++) await pass(60_000)
  state.failure = undefined
  for (let minute = 0; minute < 2; minute++) await pass(60_000)
  expect(recorded).toEqual(Array(4).fill([{ hash: hashApiKey(KEY), usedAt }]))
  expect(onRecordFailure).toHaveBeenCalledTimes(1)
})
