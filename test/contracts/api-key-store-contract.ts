import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { ApiKeyStore, StoredApiKey } from '../../src/access/api-key-store.ts'

export interface ApiKeyStoreHarness {
  readonly name: string
  /** An empty store as a running service opens it, and the same store as a command opens it in another process. */
  open(): Promise<{ readonly store: ApiKeyStore; readonly commands: ApiKeyStore }>
}

const NOON = Date.parse('2026-11-22T12:00:00.000Z')
const MINUTE = 60_000

/** A key as it is stored, with a hash of its own for each name. */
function keyNamed(name: string, change: Partial<StoredApiKey> = {}): StoredApiKey {
  return {
    name,
    hash: hashOf(name),
    scopes: ['users:read'],
    createdAt: NOON,
    expiresAt: undefined,
    lastUsedAt: undefined,
    ...change,
  }
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** The tests that every `ApiKeyStore` must pass. */
export function describeApiKeyStore({ name, open }: ApiKeyStoreHarness): void {
  describe(`ApiKeyStore: ${name}`, () => {
    test('list of an empty store is empty', async () => {
      const { store, commands } = await open()
      expect(await store.list()).toEqual([])
      expect(await commands.list()).toEqual([])
    })

    test('list returns the created keys by name, in every process', async () => {
      const { store, commands } = await open()
      const keys = [
        keyNamed('Web', { scopes: ['users:read', 'users:write', 'passwords:verify'] }),
        keyNamed('a-b', { expiresAt: NOON + 1 }),
        keyNamed('a.b', { createdAt: 0, expiresAt: 8.64e15 }),
        keyNamed('a_b', { scopes: ['passwords:verify'] }),
        keyNamed('web', { hash: Buffer.alloc(32, 0xff), expiresAt: 0 }),
        keyNamed('x'.repeat(64), { hash: Buffer.alloc(32) }),
      ]
      for (const key of keys.toReversed()) expect(await commands.create(key)).toBe(true)
      expect(await store.list()).toEqual(keys)
      expect(await commands.list()).toEqual(keys)
    })

    test('create returns false for a taken name, and changes nothing', async () => {
      const { store, commands } = await open()
      const key = keyNamed('web')
      await commands.create(key)
      const other = keyNamed('web', { hash: hashOf('other'), scopes: ['users:write'] })
      expect(await commands.create(other)).toBe(false)
      expect(await store.list()).toEqual([key])
    })

    test('of several creates of one name at the same time, one succeeds', async () => {
      const { store, commands } = await open()
      const created = await Promise.all(
        ['1', '2', '3', '4'].map(text => commands.create(keyNamed('web', { hash: hashOf(text) }))),
      )
      expect(created.filter(Boolean)).toHaveLength(1)
      const [key, ...rest] = await store.list()
      expect(rest).toEqual([])
      expect(key?.hash).toEqual(hashOf(String(created.indexOf(true) + 1)))
    })

    test('revoke removes the key of a name, and says whether there was one', async () => {
      const { store, commands } = await open()
      const [one, other] = [keyNamed('one'), keyNamed('other')]
      await commands.create(one)
      await commands.create(other)
      expect(await commands.revoke('one')).toBe(true)
      expect(await store.list()).toEqual([other])
      expect(await commands.revoke('one')).toBe(false)
      expect(await commands.revoke('OTHER')).toBe(false)
      expect(await commands.revoke('')).toBe(false)
      expect(await store.list()).toEqual([other])
    })

    test('the name of a revoked key is free', async () => {
      const { store, commands } = await open()
      await commands.create(keyNamed('web'))
      await commands.revoke('web')
      const next = keyNamed('web', { hash: hashOf('next') })
      expect(await commands.create(next)).toBe(true)
      expect(await store.list()).toEqual([next])
    })

    test('recordUses stores the last use of each key', async () => {
      const { store, commands } = await open()
      const keys = ['a', 'b', 'c'].map(each => keyNamed(each))
      for (const key of keys) await commands.create(key)
      await store.recordUses([
        { hash: hashOf('c'), usedAt: NOON + 1 },
        { hash: hashOf('a'), usedAt: NOON + 2 },
      ])
      expect((await store.list()).map(({ lastUsedAt }) => lastUsedAt)).toEqual([
        NOON + 2,
        undefined,
        NOON + 1,
      ])
      await store.recordUses([{ hash: hashOf('a'), usedAt: NOON + MINUTE }])
      expect((await commands.list())[0]).toEqual({ ...keys[0], lastUsedAt: NOON + MINUTE })
    })

    test('recordUses leaves a later use as it is, also one of the same call', async () => {
      const { store, commands } = await open()
      await commands.create(keyNamed('web'))
      const use = (usedAt: number) => ({ hash: hashOf('web'), usedAt })
      await store.recordUses([use(NOON + 2), use(NOON + 3), use(NOON + 1)])
      expect((await store.list())[0]?.lastUsedAt).toBe(NOON + 3)
      await store.recordUses([use(NOON + 2)])
      expect((await store.list())[0]?.lastUsedAt).toBe(NOON + 3)
    })

    test('recordUses ignores unknown and revoked keys', async () => {
      const { store, commands } = await open()
      await commands.create(keyNamed('web'))
      await commands.create(keyNamed('revoked'))
      await commands.revoke('revoked')
      await store.recordUses([])
      await store.recordUses(
        ['revoked', 'unknown', 'web'].map(each => ({ hash: hashOf(each), usedAt: NOON })),
      )
      expect(await store.list()).toEqual([keyNamed('web', { lastUsedAt: NOON })])
    })

    test('several processes can record the uses of the same keys at the same time', async () => {
      const { store, commands } = await open()
      const names = Array.from({ length: 50 }, (_, index) => `key-${index}`)
      for (const each of names) await commands.create(keyNamed(each))
      const uses = names.map((each, index) => ({ hash: hashOf(each), usedAt: NOON + index }))
      for (let round = 0; round < 10; round++) {
        await Promise.all([store.recordUses(uses), commands.recordUses(uses.toReversed())])
      }
      expect((await store.list()).map(key => (key.lastUsedAt ?? 0) - NOON).toSorted()).toEqual(
        names.map((_, index) => index).toSorted(),
      )
    })

    test('revision changes when a key is created or revoked', async () => {
      const { store, commands } = await open()
      const seen = [await store.revision()]
      expect(await store.revision()).toBe(seen[0])
      await commands.create(keyNamed('a'))
      seen.push(await store.revision())
      await commands.create(keyNamed('b'))
      seen.push(await store.revision())
      await commands.revoke('b')
      seen.push(await store.revision())
      await commands.create(keyNamed('b', { hash: hashOf('other') }))
      seen.push(await store.revision())
      expect(new Set(seen).size).toBe(5)
      expect(await store.revision()).toBe(seen.at(-1))
      expect(await commands.revision()).toBe(seen.at(-1))
    })

    test('revision changes when a name gets another key between two calls', async () => {
      const { store, commands } = await open()
      await commands.create(keyNamed('web'))
      const before = await store.revision()
      await commands.revoke('web')
      await commands.create(keyNamed('web'))
      expect(await store.revision()).not.toBe(before)
    })

    test('revision stays the same while keys are used', async () => {
      const { store, commands } = await open()
      await commands.create(keyNamed('web'))
      const before = await store.revision()
      await store.recordUses([{ hash: hashOf('web'), usedAt: NOON }])
      await commands.recordUses([{ hash: hashOf('web'), usedAt: NOON + 1 }])
      expect(await store.revision()).toBe(before)
    })
  })
}
