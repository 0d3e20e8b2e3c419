import { expect, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createSqliteStorage } from '../../../src/storage/sqlite/open-sqlite-storage.ts'
import { createUser } from '../../support/create-user.ts'
import { openEngine } from '../../support/stored.ts'
import { ALL, idsOf } from '../../support/user-scan.ts'

/** A storage in memory, and its connection. */
async function opened() {
  const database = await openSqlite({ path: ':memory:', now: Date.now })
  const open = async (options: Parameters<typeof createSqliteStorage>[1]) =>
    createSqliteStorage(database, options)
  const { users: repository, imports } = await openEngine({ open })
  const find = async (word: string) =>
    idsOf((await repository.list({ ...ALL, words: [word] })).json)
  return { database, repository, imports, find }
}

const newUser = (name: string) => ({ name, email: `${name}@example.com`, passwordDigest: null })

test('writes that fail after their change leave the words as they were', async () => {
  const { database, repository: users, imports, find } = await opened()
  const failing = (name: string, email: string) =>
    imports.write({
      users: [{ name, email }],
      onConflict: 'update',
      checkpointAfter: () => {
        throw new Error('no checkpoint')
      },
    })
  await expect(failing('Gone', 'gone@example.com')).rejects.toThrow('no checkpoint')
  expect((await createUser(users, newUser('Zoe'))).id).toBe(1)
  expect([await find('gone'), await find('zoe')]).toEqual([[], [1]])
  await expect(failing('Renamed', newUser('Zoe').email)).rejects.toThrow('no checkpoint')
  expect([await find('renamed'), await find('zoe')]).toEqual([[], [1]])
  // A batch that cannot be committed.
  database.exec(`CREATE TRIGGER full BEFORE UPDATE ON users_summary WHEN (SELECT count(*) FROM users) > 2
    BEGIN SELECT RAISE(ROLLBACK, 'full'); END`)
  const batch = await Promise.allSettled(
    ['Ann', 'Bea'].map(name => createUser(users, newUser(name))),
  )
  expect(batch.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  database.exec('DROP TRIGGER full')
  expect((await createUser(users, newUser('Cid'))).id).toBe(2)
  expect([await find('ann'), await find('bea'), await find('cid')]).toEqual([[], [], [2]])
})

test('writes that find a full disk leave an index of words that is right', async () => {
  const { database, repository: users, find } = await opened()
  await createUser(users, newUser('Ann'))
  database.pragma(`max_page_count = ${database.pragma('page_count', { simple: true })}`)
  const many = Array.from({ length: 200 }, (_, nth) => createUser(users, newUser(`Bea${nth}`)))
  const results = await Promise.allSettled(many)
  expect(results).toContainEqual({
    status: 'rejected',
    reason: expect.objectContaining({ code: 'storage_unavailable' }),
  })
  database.pragma('max_page_count = 1000000')
  const created = results.flatMap(each => (each.status === 'fulfilled' ? [each.value.id] : []))
  expect(await find('bea')).toEqual(created)
})
