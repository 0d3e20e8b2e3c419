import { expect, test } from 'vitest'
import {
  forgetIndexedWords,
  indexNextUsers,
} from '../../../src/storage/postgres/index-next-users.ts'
import { createPostgresDatabaseTasks } from '../../../src/storage/postgres/maintenance/postgres-database-tasks.ts'
import type { Connections } from '../../../src/storage/postgres/postgres-connections.ts'
import {
  migratePostgres,
  postgresMigrations,
} from '../../../src/storage/postgres/postgres-migrator.ts'
import type { IndexingProgress, Storage } from '../../../src/storage/storage.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import {
  connectTo,
  holdOpen,
  insertUsers,
  openStorage,
  untilWaiting,
} from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { run } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'
import { ALL } from '../../support/user-scan.ts'

const WORDS_MIGRATION = 9

const FAULTS = [
  'the index of words differs from the users, so `q` finds too many or too few: run `migrate --reindex`',
]

const SPOIL = `UPDATE users_words SET words = array_to_tsvector('{zzz}') WHERE id = 5`

/** A database of an older release. */
async function olderDatabase(users: number): Promise<string> {
  const url = await newPostgresDatabase()
  const migrations = postgresMigrations().slice(0, WORDS_MIGRATION - 1)
  await migratePostgres({ connections: connectTo(url), migrations, now: Date.now })
  await queryPostgres(url, insertUsers(1, users))
  return url
}

/** A service on a database of this release, in which something without words has inserted users. */
async function openFilled(users: number) {
  const url = await copyPostgresTemplate()
  const storage = await openStorage(url)
  await queryPostgres(url, insertUsers(1, users))
  return { url, storage, sql: (text: string) => queryPostgres(url, text) }
}

const tasksOn = (url: string) => createPostgresDatabaseTasks(locationOf(url))

async function expectSound(url: string): Promise<void> {
  expect(await tasksOn(url).check()).toMatchObject({ faults: [], pending: [] })
}

async function count({ users }: Storage, word: string): Promise<number | undefined> {
  return (await users.list({ ...ALL, words: [word], limit: 1 })).total
}

/** The same once a search is not refused: on a busy machine, indexing may take too long at first. */
async function found(storage: Storage, word: string): Promise<number | undefined> {
  const counted = await until(() =>
    count(storage, word).then(
      total => ({ total }),
      () => undefined,
    ),
  )
  return counted.total
}

/** Waits until a search finds this many users. While users are being indexed, it may be refused. */
async function untilFound(storage: Storage, word: string, users: number): Promise<void> {
  await until(async () => (await count(storage, word).catch(() => undefined)) === users)
}

test('several services index the users of an older release together while they serve', async () => {
  const url = await olderDatabase(5000)
  const reports: IndexingProgress[] = []
  const onIndexing = (progress: IndexingProgress) => reports.push(progress)
  const open = () => openStorage(url, { onIndexing })
  const [one, two] = await Promise.all([open(), open()])
  const early = await count(one, 'filled').catch(error => error.code)
  expect([5000, 'words_unavailable']).toContain(early)
  await one.users.create({ name: 'Newly Made', email: 'new@x.co', passwordDigest: null })
  await two.users.update(7, { name: 'Changed Early' })
  await one.users.update(4900, { name: 'Changed Late' })
  await two.users.delete(8)
  await one.users.delete(4901)
  await untilFound(two, 'filled', 4996)
  expect(await count(one, 'newly')).toBe(1)
  expect(await count(one, 'changed')).toBe(2)
  expect(await count(one, '4901')).toBe(0)
  await one.close()
  await two.close()
  await expectSound(url)
  expect(reports.some(({ isComplete }) => !isComplete)).toBe(true)
})

test('an interrupted indexing goes on where it was', async () => {
  const url = await olderDatabase(3000)
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

test('users that something without words writes are found by the next search', async () => {
  const { url, storage, sql } = await openFilled(1200)
  expect(await found(storage, 'filled')).toBe(1200)
  await sql(`UPDATE users SET name = 'Bea', name_lower = 'bea' WHERE id = 1`)
  await sql(`UPDATE users SET password_digest = '$1' WHERE id > 5`)
  await sql(`DELETE FROM users WHERE email = 'u9@x.co'`)
  const noted = () => sql('SELECT id FROM users_without_words')
  expect(await noted()).toEqual([{ id: 1 }])
  expect(await found(storage, 'bea')).toBe(1)
  expect(await found(storage, 'filled')).toBe(1198)
  expect(await noted()).toEqual([])
  await expectSound(url)
  await sql('TRUNCATE users')
  expect(await found(storage, 'x')).toBe(0)
  await expectSound(url)
})

test('users are indexed again that a service was indexing when it was asked for', async () => {
  const url = await olderDatabase(600)
  const connections = connectTo(url)
  await migratePostgres({ connections, migrations: postgresMigrations(), now: Date.now })
  await indexNextUsers(connections)
  await queryPostgres(url, SPOIL)
  let forgotten: Promise<void> | undefined
  const forgetMeanwhile: Connections = {
    ...connections,
    transaction: (work, options) =>
      connections.transaction(
        session =>
          work({
            query: async (statement, values) => {
              const rows = await session.query(statement, values)
              if (forgotten === undefined && statement.text.includes('FROM users WHERE id >')) {
                forgotten = forgetIndexedWords(connectTo(url))
                await Promise.race([forgotten, untilWaiting(url)])
              }
              return rows as never
            },
          }),
        options,
      ),
  }
  await indexNextUsers(forgetMeanwhile)
  await forgotten
  await tasksOn(url).migrate()
  await expectSound(url)
})

test('a search is refused while users without words cannot be indexed', async () => {
  const { url, storage } = await openFilled(10)
  const holder = await holdOpen(url, 'SELECT FROM users WHERE id = 5 FOR UPDATE')
  await expect(count(storage, 'filled')).rejects.toMatchObject({ code: 'words_unavailable' })
  await holder.query('COMMIT')
  await untilFound(storage, 'filled', 10)
})

test('words are those of the user that another release changes while it is indexed', async () => {
  const { url, storage } = await openFilled(10)
  const change = `UPDATE users SET name = 'Other', name_lower = 'other' WHERE id = 5`
  const holder = await holdOpen(url, change)
  const early = count(storage, 'filled').catch(() => undefined)
  await untilWaiting(url)
  await holder.query('COMMIT')
  await early
  await untilFound(storage, 'filled', 9)
  await untilFound(storage, 'other', 1)
  await expectSound(url)
})

test.each([
  `UPDATE users_words SET words = array_to_tsvector('{filled}') WHERE id = 5`,
  'DELETE FROM users_words WHERE id = 5',
  `INSERT INTO users_words VALUES (999, array_to_tsvector('{zzz}'))`,
  'DELETE FROM users_words',
])('check finds that words differ after %s, and migrating with reindex mends it', async sql => {
  const url = await olderDatabase(600)
  await tasksOn(url).migrate()
  await expectSound(url)
  await queryPostgres(url, sql)
  expect((await tasksOn(url).check()).faults).toEqual(FAULTS)
  await tasksOn(url).migrate({ reindex: true })
  await expectSound(url)
})

test('lists with words are made anew after migrate --reindex', async () => {
  const { url, storage, sql } = await openFilled(10)
  expect(await found(storage, 'filled')).toBe(10)
  await sql(SPOIL)
  expect(await found(storage, 'zzz')).toBe(1)
  const revision = await storage.users.revision()
  const env = { DATABASE_URL: url }
  const command = await run({ cwd: temporaryFolder(), env, args: ['migrate', '--reindex'] })
  expect(command).toMatchObject({ code: 0, stderr: '' })
  expect(await found(storage, 'zzz')).toBe(0)
  expect(await storage.users.revision()).not.toBe(revision)
})

test('words of another version are made again at the start', async () => {
  const url = await copyPostgresTemplate()
  await queryPostgres(
    url,
    `${insertUsers(1, 10)} DELETE FROM users_without_words; UPDATE users_words_state SET words_version = 0`,
  )
  await untilFound(await openStorage(url, { onIndexing: () => {} }), 'filled', 10)
})

test('import and copy write the words of all users', async () => {
  const [from, to] = [await newPostgresDatabase(), await newPostgresDatabase()]
  const cwd = temporaryFolder()
  const users = Array.from({ length: 30 }, (_, index) =>
    JSON.stringify({ name: `Zoë ${index}`, email: `u${index}@x.co`, id: 100 - index }),
  )
  const renamed = users.slice(0, 9).map(line => line.replace('Zoë', 'Bea'))
  const importing = {
    cwd,
    env: { DATABASE_URL: from },
    args: ['import', '-', '--format', 'ndjson', '--on-conflict', 'update'],
  }
  for (const lines of [users, renamed]) {
    expect(await run({ ...importing, input: lines.join('\n') })).toMatchObject({ code: 0 })
  }
  expect(await run({ cwd, args: ['copy', '--from', from, '--to', to] })).toMatchObject({ code: 0 })
  for (const url of [from, to]) {
    expect(await queryPostgres(url, 'SELECT id FROM users_without_words')).toEqual([])
    await expectSound(url)
  }
  const storage = await openStorage(to)
  expect([await count(storage, 'zoe'), await count(storage, 'bea')]).toEqual([21, 9])
})
