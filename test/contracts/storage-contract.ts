import { describe, expect, onTestFinished, test } from 'vitest'
import type { OpenStorageOptions, StorageEngine } from '../../src/storage/storage.ts'
import { UnusableDatabase } from '../../src/storage/unusable-database.ts'
import type { ImportCheckpoint } from '../../src/users/transfer/user-import-store.ts'

/** A database that no engine has opened yet, and what it stores. */
export interface StoredDatabase {
  readonly engine: StorageEngine
  /** Whether it is there, with a schema. */
  exists(): Promise<boolean>
  /** The e-mails of all users by id. */
  emails(): Promise<string[]>
  /** Takes the last migration from its history. */
  forgetMigration(): Promise<void>
  /** Makes it an unfinished copy of another database. */
  markCopy(): Promise<void>
}

export interface StorageHarness {
  readonly name: string
  newDatabase(): Promise<StoredDatabase>
}

const ANN = { name: 'Ann', email: 'ann@example.com', passwordDigest: null }

const API_KEY = {
  name: 'web',
  hash: Buffer.alloc(32),
  scopes: ['users:read'],
  createdAt: 0,
  expiresAt: undefined,
} as const

/** Opens a database as a process of its own does. It is closed after the test. */
export async function openStored(engine: StorageEngine, options: Partial<OpenStorageOptions> = {}) {
  const storage = await engine.open({
    now: Date.now,
    steadyNow: Date.now,
    maxWaitingWrites: 10,
    ifMissing: 'create',
    ...options,
  })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= storage.close()
    return closed
  }
  onTestFinished(close)
  return { ...storage, close }
}

/** The tests that every storage engine must pass for a database that persists. */
export function describeStorage({ name, newDatabase }: StorageHarness): void {
  describe(`StorageEngine: ${name}`, () => {
    test('open gives every process the same signing key and the same users', async () => {
      const { engine } = await newDatabase()
      const [one, other] = [await openStored(engine), await openStored(engine)]
      const keys = await Promise.all([one.signingKey('cursor'), other.signingKey('cursor')])
      expect(keys[0]).toHaveLength(32)
      expect(keys[0]).toEqual(keys[1])
      expect(await one.signingKey('cursor')).toEqual(keys[0])
      const { id } = await one.users.create(ANN)
      expect(await other.users.find(id)).toMatchObject({ id })
    })

    test('every database has a signing key of its own', async () => {
      const keys = []
      for (let database = 0; database < 2; database++) {
        const { engine } = await newDatabase()
        keys.push((await (await openStored(engine)).signingKey('cursor')).toString('hex'))
      }
      expect(keys[0]).not.toBe(keys[1])
    })

    test('open by several processes at once creates one schema', async () => {
      const { engine } = await newDatabase()
      const all = await Promise.all(Array.from({ length: 4 }, () => openStored(engine)))
      const ids = await Promise.all(
        all.map(async ({ users }, index) => {
          const { id } = await users.create({ ...ANN, email: `ann${index}@example.com` })
          return id
        }),
      )
      expect(new Set(ids).size).toBe(4)
    })

    test('what was written is there after the storage is opened again', async () => {
      const { engine, emails } = await newDatabase()
      const first = await openStored(engine)
      const user = await first.users.create(ANN)
      const key = await first.signingKey('cursor')
      await first.apiKeys.create(API_KEY)
      await first.close()
      expect(await emails()).toEqual([ANN.email])
      const again = await openStored(engine, { ifMissing: 'refuse', mustPersist: true })
      expect(await again.users.find(user.id)).toEqual(user)
      expect(await again.signingKey('cursor')).toEqual(key)
      expect(await again.apiKeys.list()).toEqual([{ ...API_KEY, lastUsedAt: undefined }])
      expect(engine.isInMemory).toBe(false)
    })

    test('open with refuse rejects a database that does not exist, and does not create it', async () => {
      const { engine, exists } = await newDatabase()
      await expect(openStored(engine, { ifMissing: 'refuse' })).rejects.toThrow(UnusableDatabase)
      expect(await exists()).toBe(false)
    })

    test('exists tells whether there is a schema, and does not create it', async () => {
      const { engine, exists } = await newDatabase()
      expect(await engine.exists()).toBe(false)
      expect(await exists()).toBe(false)
      await openStored(engine)
      expect(await engine.exists()).toBe(true)
    })

    test('open with refuse rejects an older schema', async () => {
      const { engine, forgetMigration } = await newDatabase()
      await (await openStored(engine)).close()
      await forgetMigration()
      const opened = openStored(engine, { ifMissing: 'refuse' })
      await expect(opened).rejects.toThrow('its schema is that of an older release')
      await expect(opened).rejects.toThrow(UnusableDatabase)
    })

    test.each(['create', 'refuse'] as const)(
      'open refuses an unfinished copy, if missing: %s',
      async ifMissing => {
        const { engine, markCopy } = await newDatabase()
        await (await openStored(engine)).close()
        await markCopy()
        const opened = openStored(engine, { ifMissing })
        await expect(opened).rejects.toThrow(
          'it is an unfinished copy: run `copy` again, or delete it',
        )
        await expect(opened).rejects.toThrow(UnusableDatabase)
      },
    )

    test('openTrialImports decides like imports and stores nothing', async () => {
      const { engine, emails } = await newDatabase()
      const storage = await openStored(engine)
      await storage.users.create(ANN)
      const trial = await storage.openTrialImports()
      const bob = { name: 'Bob', email: 'bob@example.com' }
      const { outcomes } = await trial.write({
        users: [{ ...ANN, name: 'Anna' }, bob],
        onConflict: 'fail',
        // Its result is not stored.
        checkpointAfter: () => ({}) as ImportCheckpoint,
      })
      expect(outcomes).toEqual(['email_taken', 'created'])
      await storage.close()
      expect(await emails()).toEqual([ANN.email])
    })

    test('close finishes the writes that wait, and rejects later ones', async () => {
      const { engine, emails } = await newDatabase()
      const storage = await openStored(engine)
      const created = storage.users.create(ANN)
      await storage.close()
      expect(await created).toMatchObject({ version: expect.any(String) })
      expect(await emails()).toEqual([ANN.email])
      await expect(storage.users.create(ANN)).rejects.toMatchObject({ code: 'shutting_down' })
    })

    test('close ends the store of API keys', async () => {
      const { engine } = await newDatabase()
      const { apiKeys, close } = await openStored(engine)
      const created = apiKeys.create(API_KEY)
      await close()
      expect(await created).toBe(true)
      const use = { hash: API_KEY.hash, usedAt: 1 }
      for (const call of [
        () => apiKeys.list(),
        () => apiKeys.revision(),
        () => apiKeys.create(API_KEY),
        () => apiKeys.revoke('web'),
        () => apiKeys.recordUses([use]),
      ]) {
        await expect(call()).rejects.toMatchObject({ code: 'shutting_down' })
      }
    })

    test('writes beyond maxWaitingWrites are refused, and the others are done', async () => {
      const { engine, emails } = await newDatabase()
      const storage = await openStored(engine, { maxWaitingWrites: 10 })
      const results = await Promise.allSettled(
        Array.from({ length: 200 }, (_, index) =>
          storage.users.create({ ...ANN, email: `ann${index}@example.com` }),
        ),
      )
      const refused = results.flatMap(result => (result.status === 'rejected' ? [result] : []))
      expect(refused.length).toBeGreaterThan(0)
      for (const { reason } of refused) expect(reason).toMatchObject({ code: 'overloaded' })
      expect(await emails()).toHaveLength(200 - refused.length)
    })
  })
}
