import { expect, onTestFinished, test } from 'vitest'
import { createIndexedWords } from '../../../src/storage/index-next-users.ts'
import { openLongLists } from '../../../src/storage/sqlite/long-reads.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteSharedStatements } from '../../../src/storage/sqlite/sqlite-statements.ts'
import { createSqliteUserImportStore } from '../../../src/storage/sqlite/sqlite-user-import-store.ts'
import { createSqliteUserLists } from '../../../src/storage/sqlite/sqlite-user-lists.ts'
import { createSqliteUserReads } from '../../../src/storage/sqlite/sqlite-user-reads.ts'
import { createSqliteUserWrites } from '../../../src/storage/sqlite/sqlite-user-writes.ts'
import { clearWords, wordDialect } from '../../../src/storage/sqlite/word-index.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import { createUser } from '../../support/create-user.ts'
import { ALL, idsOf } from '../../support/user-scan.ts'

async function openRepository(path: string, now: () => number = Date.now) {
  const database = await openSqlite({ path, now })
  const view = createReadView(database)
  const warnings: string[] = []
  const onWarning = (message: string) => void warnings.push(message)
  const writes = createWriteQueue(database, view, { onWarning })
  const longLists = openLongLists(database)
  const statements = createSqliteSharedStatements(database, writes)
  const parts = { database, writes, view, statements, now, steadyNow: now, uptimeNow: now }
  return {
    ...{ database, statements, warnings },
    repository: {
      ...createSqliteUserReads(parts),
      ...createSqliteUserLists(parts, longLists),
      ...createSqliteUserWrites(parts),
    },
    imports: createSqliteUserImportStore(parts),
    close: async () => {
      await writes.close()
      await longLists.close()
      view.end()
      database.close()
    },
  }
}

async function opened() {
  const { close, ...parts } = await openRepository(':memory:')
  onTestFinished(close)
  const find = async (word: string) =>
    idsOf((await parts.repository.list({ ...ALL, words: [word] })).json)
  return { ...parts, find }
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

test('users that change in the transaction that indexes them are found by their last words only', async () => {
  const { database, statements, repository: users, find } = await opened()
  for (const name of ['Ann', 'Bea', 'Cid', 'Dora']) await createUser(users, newUser(name))
  clearWords(database)
  const addNext = (count: number) => createIndexedWords(statements, wordDialect(count)).addNext()
  await expect(find('ann')).rejects.toMatchObject({ code: 'words_unavailable' })
  await Promise.all([
    users.update(1, { name: 'Early' }),
    addNext(2),
    users.update(2, { name: 'Late' }),
    users.delete(3),
  ])
  await Promise.all([
    users.update(1, { name: 'Earlier' }),
    users.update(4, { name: 'Latest' }),
    createUser(users, newUser('Eve')),
    addNext(10),
    users.delete(2),
  ])
  const words = 'ann bea cid dora early earlier late latest eve example'.split(' ')
  const found = await Promise.all(words.map(async word => [word, await find(word)]))
  expect(Object.fromEntries(found)).toEqual({
    ...{ ann: [1], bea: [], cid: [], dora: [4], early: [], earlier: [1], late: [4], latest: [4] },
    ...{ eve: [5], example: [1, 4, 5] },
  })
})

test.each([
  ['a lost page', 'DELETE FROM users_words_data WHERE id = 10'],
  ['a wrong page', `UPDATE users_words_data SET block = x'00ff' WHERE id = 10`],
  ['no table', 'DROP TABLE users_words'],
])(
  'with %s of the index of words, writes are done, and it is to be built again',
  async (_, sql) => {
    const { database, statements, warnings, repository: users, find } = await opened()
    for (const name of ['Ann', 'Bea']) await createUser(users, newUser(name))
    database.unsafeMode(true)
    database.exec(sql)
    const written = await Promise.all([
      createUser(users, newUser('Cid')),
      users.update(1, { name: 'Anna' }),
      users.delete(2),
    ])
    expect(written).toMatchObject([{ id: 3 }, { id: 1 }, true])
    expect(idsOf((await users.list(ALL)).json)).toEqual([1, 3])
    await expect(find('ann')).rejects.toMatchObject({ code: 'words_unavailable' })
    await createUser(users, newUser('Dora'))
    expect(warnings).toEqual(['index of words is damaged, and is built again'])
    if (sql.startsWith('DROP')) return
    await createIndexedWords(statements, wordDialect(10)).addNext()
    expect([await find('ann'), await find('bea'), await find('dora')]).toEqual([[1], [], [4]])
  },
)

test('writes that find a full disk leave an index of words that is right', async () => {
  const { database, warnings, repository: users, find } = await opened()
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
  expect([warnings, await find('bea')]).toEqual([[], created])
})
