import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteUserImportStore } from '../../../src/storage/sqlite/sqlite-user-import-store.ts'
import { createSqliteUserRepository } from '../../../src/storage/sqlite/sqlite-user-repository.ts'
import { clearWords } from '../../../src/storage/sqlite/word-index.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import {
  describeUserRepository,
  describeWordSearch,
} from '../../contracts/user-repository-contract.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { ALL, idsOf } from '../../support/user-scan.ts'

async function openRepository(path: string, now: () => number = Date.now) {
  const database = await openSqlite({ path, now })
  const view = createReadView(database)
  const writes = createWriteQueue(database, view)
  return {
    ...{
      database,
      writes,
      repository: createSqliteUserRepository({ database, writes, view, now }),
    },
    close: async () => {
      await writes.close()
      view.end()
      database.close()
    },
  }
}

describeUserRepository({
  name: 'a SQLite file',
  open: now => openRepository(join(temporaryFolder(), 'users.db'), now),
})

// It has one connection, so its lists are made at once.
describeWordSearch({ name: 'SQLite in memory', open: now => openRepository(':memory:', now) })

async function opened() {
  const { database, writes, repository, close } = await openRepository(':memory:')
  onTestFinished(close)
  const imports = createSqliteUserImportStore({ database, writes, now: Date.now })
  const find = async (word: string) =>
    idsOf((await repository.list({ ...ALL, words: [word] })).json)
  return { database, writes, repository, imports, find }
}

const newUser = (name: string) => ({ name, email: `${name}@example.com`, passwordDigest: null })

test('writes that fail after their change leave no words for the next users with their ids', async () => {
  const { database, repository: users, imports, find } = await opened()
  const failed = imports.write({
    users: [{ name: 'Gone', email: 'gone@example.com' }],
    onConflict: 'fail',
    checkpointAfter: () => {
      throw new Error('no checkpoint')
    },
  })
  await expect(failed).rejects.toThrow('no checkpoint')
  expect((await users.create(newUser('Zoe'))).id).toBe(1)
  expect([await find('gone'), await find('zoe')]).toEqual([[], [1]])
  // A batch that cannot be committed.
  database.exec(`CREATE TRIGGER full BEFORE UPDATE ON users_summary WHEN (SELECT count(*) FROM users) > 2
    BEGIN SELECT RAISE(ROLLBACK, 'full'); END`)
  const batch = await Promise.allSettled(['Ann', 'Bea'].map(name => users.create(newUser(name))))
  expect(batch.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  database.exec('DROP TRIGGER full')
  expect((await users.create(newUser('Cid'))).id).toBe(2)
  expect([await find('ann'), await find('bea'), await find('cid')]).toEqual([[], [], [2]])
})

test('users that change in the transaction that indexes them are found by their last words only', async () => {
  const { database, writes, repository: users, find } = await opened()
  for (const name of ['Ann', 'Bea', 'Cid', 'Dora']) await users.create(newUser(name))
  clearWords(database)
  await expect(find('ann')).rejects.toMatchObject({ code: 'words_unavailable' })
  await Promise.all([
    users.update(1, { name: 'Early' }),
    writes.run(() => writes.words.addNext(2, () => {})),
    users.update(2, { name: 'Late' }),
    users.delete(3),
  ])
  await Promise.all([
    users.update(1, { name: 'Earlier' }),
    users.update(4, { name: 'Latest' }),
    users.create(newUser('Eve')),
    writes.run(() => writes.words.addNext(10, () => {})),
    users.delete(2),
  ])
  const words = 'ann bea cid dora early earlier late latest eve example'.split(' ')
  const found = await Promise.all(words.map(async word => [word, await find(word)]))
  expect(Object.fromEntries(found)).toEqual({
    ...{ ann: [1], bea: [], cid: [], dora: [4], early: [], earlier: [1], late: [4], latest: [4] },
    ...{ eve: [5], example: [1, 4, 5] },
  })
})
