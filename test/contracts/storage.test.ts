import { describe, expect, test } from 'vitest'
import { UnusableDatabase } from '../../src/storage/unusable-database.ts'
import { createUser } from '../support/create-user.ts'
import { newStoredDatabase, openEngine, type StoredDatabase } from '../support/stored.ts'

const ANN = { name: 'Ann', email: 'ann@example.com', passwordDigest: null }

const API_KEY = {
  name: 'web',
  hash: Buffer.alloc(32),
  scopes: ['users:read'],
  createdAt: 0,
  expiresAt: undefined,
} as const

/** The e-mails of all users by id. */
async function emailsIn({ sql }: StoredDatabase): Promise<unknown[]> {
  return (await sql('SELECT email FROM users ORDER BY id')).map(({ email }) => email)
}

describe('StorageEngine', () => {
  test('open by several processes at once creates one schema and one signing key, another in each database', async () => {
    const [{ engine }, another] = [await newStoredDatabase(), await newStoredDatabase()]
    const all = await Promise.all(Array.from({ length: 4 }, () => openEngine(engine)))
    const created = await Promise.all(
      all.map(({ users }, index) =>
        createUser(users, { ...ANN, email: `ann${index}@example.com` }),
      ),
    )
    expect(new Set(created.map(({ id }) => id)).size).toBe(4)
    for (const { id } of created) expect(await all[0]?.users.find(id)).toMatchObject({ id })
    all.push(await openEngine(another.engine))
    const keys = await Promise.all(all.map(({ signingKey }) => signingKey('cursor')))
    expect(keys.map(({ length }) => length)).toEqual(Array(5).fill(32))
    const texts = keys.map(key => key.toString('hex'))
    expect(new Set(texts.slice(0, 4)).size).toBe(1)
    expect(new Set(texts).size).toBe(2)
  })

  test('neither exists nor an open with refuse creates a database', async () => {
    const { engine, exists } = await newStoredDatabase()
    expect(await engine.exists()).toBe(false)
    await expect(openEngine(engine, { ifMissing: 'refuse' })).rejects.toThrow(UnusableDatabase)
    expect(await exists()).toBe(false)
    await openEngine(engine)
    expect(await engine.exists()).toBe(true)
  })

  test.each([
    ['an unreleased version made it', `UPDATE schema_migrations SET hash = 'x'`],
    [
      'it is an unfinished copy: run `copy` again, or delete it',
      'INSERT INTO unfinished_copies (singleton) VALUES (1)',
    ],
  ])('open says "%s"', async (why, change) => {
    const { engine, sql } = await newStoredDatabase()
    await (await openEngine(engine)).close()
    await sql(change)
    for (const ifMissing of ['refuse', 'create'] as const) {
      const opened = openEngine(engine, { ifMissing })
      await expect(opened).rejects.toThrow(why)
      await expect(opened).rejects.toThrow(UnusableDatabase)
    }
  })

  test('close finishes the writes that wait, and rejects later calls', async () => {
    const database = await newStoredDatabase()
    const { engine } = database
    const { users, apiKeys, close } = await openEngine(engine)
    const created = [createUser(users, ANN), apiKeys.create(API_KEY)]
    await close()
    expect(await Promise.all(created)).toEqual([expect.objectContaining({ id: 1 }), true])
    expect(await emailsIn(database)).toEqual([ANN.email])
    const use = { hash: API_KEY.hash, usedAt: 1 }
    for (const call of [
      () => createUser(users, ANN),
      () => apiKeys.list(),
      () => apiKeys.revision(),
      () => apiKeys.create(API_KEY),
      () => apiKeys.revoke('web'),
      () => apiKeys.recordUses([use]),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'shutting_down' })
    }
  })

  test('each user of a create waits as a write: where they do not all fit, none is made', async () => {
    const database = await newStoredDatabase()
    const { engine } = database
    const { users, report } = await openEngine(engine, { maxWaitingWrites: 10 })
    const many = (count: number, name: string) =>
      Array.from({ length: count }, (_, nth) => ({ ...ANN, email: `${name}${nth}@example.com` }))
    const made = users.create(many(7, 'a'))
    expect(report().waitingWrites).toBe(7)
    await expect(users.create(many(4, 'b'))).rejects.toMatchObject({ code: 'overloaded' })
    await Promise.all([made, users.create(many(3, 'c'))])
    await users.create(many(10, 'd'))
    expect(report().waitingWrites).toBe(0)
    expect(await emailsIn(database)).toHaveLength(20)
  })
})
