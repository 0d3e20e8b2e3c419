import { expect, test } from 'vitest'
import type { IndexingProgress, Storage } from '../../../src/storage/storage.ts'
import {
  holdOpen,
  insertUsers,
  openStorage,
  tasksOn,
  untilWaiting,
} from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { untilPasses } from '../../support/until.ts'
import { ALL } from '../../support/user-scan.ts'

/** A database of this release, in which something without words has inserted users. */
async function newFilled(users: number) {
  const url = await copyPostgresTemplate()
  await queryPostgres(url, insertUsers(1, users))
  return { url, sql: (text: string) => queryPostgres(url, text) }
}

/** A storage that indexes what has no words. */
function openIndexing(url: string) {
  return openStorage(url, { onIndexing: () => {} })
}

async function expectSound(url: string): Promise<void> {
  expect(await tasksOn(url).check()).toMatchObject({ faults: [], pending: [] })
}

async function count({ users }: Storage, word: string): Promise<number | undefined> {
  return (await users.list({ ...ALL, words: [word], limit: 1 })).total
}

/** The same once a search is not refused. */
function found(storage: Storage, word: string): Promise<number | undefined> {
  return untilPasses(() => count(storage, word))
}

test('an interrupted indexing goes on where it was', async () => {
  const { url, sql } = await newFilled(3000)
  await sql('DELETE FROM users_without_words; UPDATE users_words_state SET indexed_through = 0')
  const aborting = new AbortController()
  const seen: number[] = []
  const first = tasksOn(url).migrate({
    signal: aborting.signal,
    onIndexing: ({ through }) => {
      seen.push(through)
      if (seen.length === 2) aborting.abort()
    },
  })
  await expect(first).rejects.toMatchObject({ name: 'AbortError' })
  await expectSound(url)
  await tasksOn(url).migrate({ onIndexing: ({ through }) => seen.push(through) })
  expect(seen.slice(0, 3)).toEqual([500, 1000, 1500])
  await expectSound(url)
  expect(await count(await openStorage(url), 'filled')).toBe(3000)
})

test('users that something without words writes are found soon', async () => {
  const { url, sql } = await newFilled(1200)
  const first = await openIndexing(url)
  expect(await found(first, 'filled')).toBe(1200)
  await first.close()
  await sql(`UPDATE users SET name = 'Bea', name_lower = 'bea' WHERE id = 1`)
  await sql(`UPDATE users SET password_digest = '$1' WHERE id > 5`)
  await sql(`DELETE FROM users WHERE email = 'u9@x.co'`)
  const noted = () => sql('SELECT id FROM users_without_words')
  expect(await noted()).toEqual([{ id: 1 }])
  const storage = await openIndexing(url)
  expect(await found(storage, 'bea')).toBe(1)
  expect(await found(storage, 'filled')).toBe(1198)
  expect(await noted()).toEqual([])
  await expectSound(url)
  await sql('TRUNCATE users')
  expect(await found(storage, 'x')).toBe(0)
  await expectSound(url)
})

test('the progress is that of the users that something without words has written', async () => {
  const { url } = await newFilled(1200)
  const seen: IndexingProgress[] = []
  await tasksOn(url).migrate({ onIndexing: progress => seen.push(progress) })
  expect(seen.map(({ through }) => through)).toEqual([500, 1000, 1200])
  expect(seen.map(({ isComplete }) => isComplete)).toEqual([false, false, true])
})

test('a search is refused while users without words cannot be indexed', async () => {
  const { url } = await newFilled(10)
  const holder = await holdOpen(url, 'SELECT FROM users WHERE id = 5 FOR UPDATE')
  const storage = await openIndexing(url)
  await expect(count(storage, 'filled')).rejects.toMatchObject({ code: 'words_unavailable' })
  await holder.query('COMMIT')
  expect(await found(storage, 'filled')).toBe(10)
})

test('words are those of the user that another release changes while it is indexed', async () => {
  const { url } = await newFilled(10)
  const change = `UPDATE users SET name = 'Other', name_lower = 'other' WHERE id = 5`
  const holder = await holdOpen(url, change)
  const storage = await openIndexing(url)
  await untilWaiting(url)
  await holder.query('COMMIT')
  expect([await found(storage, 'filled'), await found(storage, 'other')]).toEqual([9, 1])
  await expectSound(url)
})

test('an index that cannot be written is tried again, until it can', async () => {
  const { sql, url } = await newFilled(10)
  await sql('ALTER TABLE users_words RENAME TO users_words_away')
  await sql('UPDATE users_words_state SET indexed_through = 0')
  const seen: string[] = []
  const storage = await openStorage(url, {
    onWarning: message => seen.push(message),
    onIndexing: ({ isComplete }) => seen.push(isComplete ? 'complete' : 'indexing'),
  })
  await untilPasses(async () => expect(seen).toHaveLength(1))
  await sql('ALTER TABLE users_words_away RENAME TO users_words')
  await untilPasses(async () => expect(seen).toHaveLength(2))
  expect(seen).toEqual(['index of words cannot be built', 'complete'])
  expect(await found(storage, 'filled')).toBe(10)
})
