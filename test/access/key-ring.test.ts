import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { hashApiKey } from '../../src/access/api-key.ts'
import type { StoredApiKey } from '../../src/access/api-key-store.ts'
import { type KeyRing, openKeyRing } from '../../src/access/key-ring.ts'
import { unknownKey } from '../support/api-keys.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { memoryApiKeys } from '../support/memory-api-keys.ts'
import { until } from '../support/until.ts'

const KEY = unknownKey()
const OTHER = unknownKey()

function stored(key: string, change: Partial<StoredApiKey> = {}): StoredApiKey {
  return {
    name: 'a',
    hash: hashApiKey(key),
    scopes: ['users:read'],
    createdAt: 0,
    expiresAt: undefined,
    lastUsedAt: undefined,
    ...change,
  }
}

/** A ring over a store in memory, with clocks that the test moves. */
async function open(keys: StoredApiKey[] = [stored(KEY)]) {
  const store = memoryApiKeys(keys)
  const wall = createFakeClock()
  const steady = createFakeClock(0)
  const onReadFailure = vi.fn()
  const onRecordFailure = vi.fn()
  const ring = await openKeyRing({
    store,
    now: wall.now,
    monotonicNow: steady.now,
    onReadFailure,
    onRecordFailure,
  })
  onTestFinished(() => ring.close())
  const advance = (ms: number) => {
    wall.advance(ms)
    steady.advance(ms)
  }
  return { store, ring, wall, advance, onReadFailure, onRecordFailure }
}

function nameOf(ring: KeyRing, key: string): string {
  const found = ring.recognise(key)
  return typeof found === 'string' ? found : `key ${found.name}`
}

// What a service does with valid, unknown, expired and malformed keys is in test/http/api-keys.test.ts.

test('openKeyRing rejects when the store cannot be read', async () => {
  const store = memoryApiKeys()
  store.failure = new Error('away')
  const options = { store, now: Date.now, monotonicNow: Date.now }
  const silent = { onReadFailure: () => {}, onRecordFailure: () => {} }
  await expect(openKeyRing({ ...options, ...silent })).rejects.toThrow('away')
})

describe('KeyRing follows the store', () => {
  test('by itself, and reads the keys only after a change', async () => {
    const { store, ring } = await open()
    store.keys = []
    for (let turn = 0; turn < 3; turn++) await ring.follow()
    expect(store.lists).toBe(1)
    expect([nameOf(ring, KEY), ring.isEmpty()]).toEqual(['key a', false])
    store.changed()
    await until(() => ring.isEmpty())
    expect(nameOf(ring, KEY)).toBe('unknown')
    expect(store.lists).toBe(2)
  })

  test('and keeps the last keys while it fails, which is reported once', async () => {
    const { store, ring, onReadFailure } = await open()
    store.failure = new Error('away')
    store.keys = []
    store.changed()
    for (let turn = 0; turn < 3; turn++) await ring.follow()
    expect(nameOf(ring, KEY)).toBe('key a')
    expect(onReadFailure.mock.calls).toEqual([[store.failure]])
    store.failure = undefined
    await ring.follow()
    expect(nameOf(ring, KEY)).toBe('unknown')
    store.failure = new Error('away again')
    await ring.follow()
    expect(onReadFailure).toHaveBeenCalledTimes(2)
  })

  test('and finds a change that is made while it reads', async () => {
    const { store, ring } = await open()
    const { list } = store
    store.list = async () => {
      const before = await list()
      store.list = list
      store.keys = []
      store.changed()
      return before
    }
    store.changed()
    await ring.follow()
    await ring.follow()
    expect(nameOf(ring, KEY)).toBe('unknown')
  })

  test('without waiting for uses that are being recorded', async () => {
    const { store, ring } = await open()
    let release = () => {}
    store.gate = new Promise(resolve => {
      release = resolve
    })
    ring.recognise(KEY)
    store.keys = []
    store.changed()
    await until(() => nameOf(ring, KEY) === 'unknown')
    release()
  })
})

describe('KeyRing records uses', () => {
  test('of valid keys, at most once a minute for each, with the time of the last one', async () => {
    const expired = unknownKey()
    const { store, ring, advance, wall } = await open([
      stored(KEY),
      stored(OTHER, { name: 'b' }),
      stored(expired, { name: 'c', expiresAt: 1 }),
    ])
    const start = wall.now()
    for (const key of [KEY, expired, unknownKey()]) ring.recognise(key)
    await until(() => store.recorded.length === 1)
    for (let second = 0; second < 59; second++) {
      advance(1000)
      ring.recognise(KEY)
    }
    ring.recognise(OTHER)
    await until(() => store.recorded.length === 2)
    advance(1000)
    await until(() => store.recorded.length === 3)
    expect(store.recorded).toEqual([
      [{ hash: hashApiKey(KEY), usedAt: start }],
      [{ hash: hashApiKey(OTHER), usedAt: start + 59_000 }],
      [{ hash: hashApiKey(KEY), usedAt: start + 59_000 }],
    ])
  })

  test('that are not due yet when it closes, also over a change of the keys', async () => {
    const { store, ring, advance, wall } = await open()
    ring.recognise(KEY)
    await until(() => store.recorded.length === 1)
    advance(1000)
    ring.recognise(KEY)
    store.keys = [stored(KEY), stored(OTHER, { name: 'b' })]
    store.changed()
    await ring.follow()
    await ring.close()
    const use = { hash: hashApiKey(KEY), usedAt: wall.now() }
    expect(store.recorded.slice(1)).toEqual([[use]])
    ring.recognise(KEY)
    await ring.close()
  })

  test('again a minute after a failure, which is reported once', async () => {
    const { store, ring, advance, wall, onRecordFailure } = await open()
    const usedAt = wall.now()
    store.failure = new Error('away')
    ring.recognise(KEY)
    for (const count of [1, 2, 3]) {
      await until(() => store.recorded.length === count)
      advance(60_000)
    }
    store.failure = undefined
    await until(() => store.recorded.length === 4)
    expect(store.recorded).toEqual(Array(4).fill([{ hash: hashApiKey(KEY), usedAt }]))
    expect(onRecordFailure).toHaveBeenCalledTimes(1)
    advance(60_000)
    await ring.close()
    expect(store.recorded).toHaveLength(4)
  })
})
