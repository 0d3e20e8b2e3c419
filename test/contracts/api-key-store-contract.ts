import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { ApiKeyStore, StoredApiKey } from '../../src/access/api-key.ts'

export interface ApiKeyStoreHarness {
  readonly name: string
  /** An empty store as a running service opens it, and the same store as a command opens it in another process. */
  open(): Promise<{ readonly store: ApiKeyStore; readonly commands: ApiKeyStore }>
}

const NOON = Date.parse('2026-11-22T12:00:00.000Z')

/** A key as it is stored, with a hash of its own for each name. */
export function keyNamed(name: string, change: Partial<StoredApiKey> = {}): StoredApiKey {
  return {
    ...{ name, hash: hashOf(name), scopes: ['users:read'], createdAt: NOON },
    ...{ expiresAt: undefined, lastUsedAt: undefined },
    ...change,
  }
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** The tests that every `ApiKeyStore` must pass, besides those of the commands in `test/cli/access`. */
export function describeApiKeyStore({ name, open }: ApiKeyStoreHarness): void {
  describe(`ApiKeyStore: ${name}`, () => {
    test('list returns the created keys by name, in every process', async () => {
      const { store, commands } = await open()
      const keys = [
        keyNamed('Web', { scopes: ['users:read', 'users:write', 'passwords:verify'] }),
        keyNamed('a-b', { expiresAt: NOON + 1 }),
        keyNamed('a.b', { createdAt: 0, expiresAt: 8.64e15 }),
        keyNamed('a_b'),
        keyNamed('web', { hash: Buffer.alloc(32, 0xff), expiresAt: 0 }),
        keyNamed('x'.repeat(64), { hash: Buffer.alloc(32) }),
      ]
      for (const key of keys.toReversed()) expect(await commands.create(key)).toBe(true)
      expect(await store.list()).toEqual(keys)
      expect(await commands.list()).toEqual(keys)
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

    test('recordUses stores the last use of each key, and ignores unknown and revoked keys', async () => {
      const { store, commands } = await open()
      for (const each of ['a', 'b', 'c']) await commands.create(keyNamed(each))
      await commands.revoke('c')
      const use = (each: string, usedAt: number) => ({ hash: hashOf(each), usedAt: NOON + usedAt })
      await store.recordUses([])
      await store.recordUses([use('c', 1), use('a', 2), use('x', 2), use('a', 3), use('a', 1)])
      await commands.recordUses([use('a', 2)])
      const used = [keyNamed('a', { lastUsedAt: NOON + 3 }), keyNamed('b')]
      expect(await commands.list()).toEqual(used)
    })

    test('revision changes when a key is created or revoked, and not when it is used', async () => {
      const { store, commands } = await open()
      const seen = [await store.revision()]
      for (const change of [
        () => commands.create(keyNamed('a')),
        () => commands.revoke('a'),
        () => commands.create(keyNamed('a')),
        () => commands.revoke('a').then(() => commands.create(keyNamed('a'))),
      ]) {
        await change()
        seen.push(await store.revision())
      }
      expect(new Set(seen).size).toBe(5)
      await store.recordUses([{ hash: hashOf('a'), usedAt: NOON }])
      expect([await store.revision(), await commands.revision()]).toEqual([seen[4], seen[4]])
    })
  })
}
