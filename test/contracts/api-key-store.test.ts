import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { ApiKeyStore, StoredApiKey } from '../../src/access/api-key.ts'
import { byEngine } from '../support/engine.ts'
import { openStored } from '../support/stored.ts'

const NOON = Date.parse('2026-11-22T12:00:00.000Z')

/** A key as it is stored, with a hash of its own for each name. */
function keyNamed(name: string, change: Partial<StoredApiKey> = {}): StoredApiKey {
  return {
    ...{ name, hash: hashOf(name), scopes: ['users:read'], createdAt: NOON },
    ...{ expiresAt: undefined, lastUsedAt: undefined },
    ...change,
  }
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

const NO_HASH = byEngine({ sqlite: 'zeroblob(32)', postgres: `decode(repeat('00', 32), 'hex')` })

const OTHER = `
  api_keys (name, key_hash, scopes, created_at) VALUES ('other', ${NO_HASH}, 'users:read', 0)`

/** An empty store as a running service opens it, and the same store as a command opens it in another process. */
async function open() {
  const { storage, again, sql } = await openStored()
  const openOther = async () => (await again()).apiKeys
  return { store: storage.apiKeys, commands: await openOther(), openOther, sql }
}

describe('ApiKeyStore', () => {
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
  test.each([
    ...byEngine({
      sqlite: [
        `INSERT OR IGNORE INTO ${OTHER}`,
        `UPDATE OR REPLACE api_keys SET scopes = 'users:write'`,
        `UPDATE api_keys SET key_hash = ${NO_HASH}`,
      ],
      postgres: [`INSERT INTO ${OTHER}`, 'TRUNCATE api_keys'],
    }),
    'UPDATE api_keys SET expires_at = 1',
    'DELETE FROM api_keys',
    'DELETE FROM api_key_changes',
  ])('%s by an operator changes the revision', async statement => {
    const { store, sql } = await open()
    await store.create(keyNamed('web'))
    const before = await store.revision()
    await sql(statement)
    expect(await store.revision()).not.toBe(before)
  })

  test('list leaves out scopes that this release does not know', async () => {
    const { store, sql } = await open()
    const scopes = 'users:write all users:read users:write'
    await sql(`INSERT INTO ${OTHER.replace('users:read', scopes)}`)
    expect((await store.list())[0]?.scopes).toEqual(['users:read', 'users:write'])
  })

  test('several processes can create, use and revoke the same keys at the same time', async () => {
    const { store, openOther } = await open()
    const names = Array.from({ length: 20 }, (_, index) => `key-${index}`)
    const work = async (each: ApiKeyStore, mine: readonly string[]) => {
      // One after the other, because a connection that does not become free in time is an error.
      let count = 0
      for (const name of mine) {
        if (await each.create(keyNamed(name, { hash: randomBytes(32) }))) count++
      }
      const uses = (await each.list()).map(({ hash }) => ({ hash, usedAt: 1 }))
      await each.recordUses(mine === names ? uses : uses.toReversed())
      for (const name of mine) if (await each.revoke(name)) count--
      return count
    }
    for (let round = 0; round < 5; round++) {
      const counts = await Promise.all(
        [names, names.toReversed(), names, names.toReversed()].map(async mine =>
          work(await openOther(), mine),
        ),
      )
      expect(counts.reduce((sum, count) => sum + count)).toBe(0)
    }
    expect(await store.list()).toEqual([])
  })
})
