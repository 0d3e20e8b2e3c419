import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import {
  forgetIndexedWords,
  indexNextUsers,
} from '../../../src/storage/postgres/index-next-users.ts'
import { createPostgresDatabaseTasks } from '../../../src/storage/postgres/maintenance/postgres-database-tasks.ts'
import type { Connections, Session } from '../../../src/storage/postgres/postgres-connections.ts'
import {
  migratePostgres,
  postgresMigrations,
} from '../../../src/storage/postgres/postgres-migrator.ts'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import type { IndexingProgress, Storage } from '../../../src/storage/storage.ts'
import type { UserQuery } from '../../../src/users/user-repository.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { connectToPostgres, queryPostgres } from '../../support/postgres-client.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { run } from '../../support/spawn-service.ts'
import { until, untilPasses } from '../../support/until.ts'

const WORDS_MIGRATION = 9

const SOUND = { faults: [], pending: [] }

const FAULTS = [
  'the index of words differs from the users, so `q` finds too many or too few: run `migrate --reindex`',
]

const fill = (from: number, to: number) => `
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT 'Filled ' || n, 'filled ' || n, 'u' || n || '@x.co', '2026-01-31T12:00:00.000Z', '2026-01-31T12:00:00.000Z'
  FROM generate_series(${from}, ${to}) AS n;`

/** A database of an older release. */
async function olderDatabase(users: number): Promise<string> {
  const url = await newPostgresDatabase()
  const migrations = postgresMigrations().slice(0, WORDS_MIGRATION - 1)
  await migratePostgres({ connections: connectTo(url), migrations, now: Date.now })
  await queryPostgres(url, fill(1, users))
  return url
}

async function openStorage(
  url: string,
  onIndexing?: (progress: IndexingProgress) => void,
): Promise<Storage> {
  const storage = await createPostgresEngine(locationOf(url)).open({
    now: Date.now,
    steadyNow: Date.now,
    maxWaitingWrites: 1000,
    ifMissing: 'create',
    ...(onIndexing && { onIndexing }),
  })
  return storage
}

const tasksOn = (url: string) => createPostgresDatabaseTasks(locationOf(url))

async function count({ users }: Storage, ...words: string[]): Promise<number | undefined> {
  const query: UserQuery = {
    sort: { by: 'id', descending: false },
    filters: {},
    words,
    limit: 1,
    start: { offset: 0 },
    withTotal: true,
  }
  return (await users.list(query)).total
}

test('several services index the users of an older release together while they serve', async () => {
  const url = await olderDatabase(5000)
  const reports: IndexingProgress[] = []
  const [one, two] = await Promise.all([
    openStorage(url, progress => reports.push(progress)),
    openStorage(url, progress => reports.push(progress)),
  ])
  const early = await count(one, 'filled').catch(error => error.code)
  expect([5000, 'words_unavailable']).toContain(early)
  await one.users.create({ name: 'Newly Made', email: 'new@x.co', passwordDigest: null })
  await two.users.update(7, { name: 'Changed Early' })
  await one.users.update(4900, { name: 'Changed Late' })
  await two.users.delete(8)
  await one.users.delete(4901)
  await untilPasses(async () => {
    expect(await count(two, 'filled')).toBe(4996)
  })
  expect(await count(one, 'newly')).toBe(1)
  expect(await count(one, 'changed')).toBe(2)
  expect(await count(one, '4901')).toBe(0)
  await one.close()
  await two.close()
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
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
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
  await tasksOn(url).migrate({ onIndexing: ({ through }) => seen.push(through) })
  expect(seen.slice(0, 3)).toEqual([500, 1000, 1500])
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
  const storage = await openStorage(url)
  onTestFinished(storage.close)
  expect(await count(storage, 'filled')).toBe(3000)
})

test('users that something without words writes are found by the next search', async () => {
  const url = await copyPostgresTemplate()
  const storage = await openStorage(url)
  onTestFinished(storage.close)
  const { id } = await storage.users.create({
    name: 'Ann',
    email: 'ann@x.co',
    passwordDigest: null,
  })
  await queryPostgres(url, fill(1, 1200))
  expect(await count(storage, 'filled')).toBe(1200)
  await queryPostgres(
    url,
    `UPDATE users SET name = 'Bea', name_lower = 'bea' WHERE id = ${id};
     UPDATE users SET password_digest = '$1' WHERE id > ${id + 5};
     DELETE FROM users WHERE email = 'u9@x.co'`,
  )
  const noted = await queryPostgres(url, 'SELECT id FROM users_without_words')
  expect(noted).toEqual([{ id }])
  expect(await count(storage, 'ann')).toBe(1)
  expect(await count(storage, 'bea')).toBe(1)
  expect(await count(storage, 'filled')).toBe(1199)
  expect(await queryPostgres(url, 'SELECT id FROM users_without_words')).toEqual([])
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
  await queryPostgres(url, 'TRUNCATE users')
  expect(await count(storage, 'x')).toBe(0)
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
})

test('users are indexed again that a service was indexing when it was asked for', async () => {
  const url = await olderDatabase(600)
  const connections = connectTo(url)
  await migratePostgres({ connections, migrations: postgresMigrations(), now: Date.now })
  await indexNextUsers(connections)
  await queryPostgres(url, `UPDATE users_words SET words = array_to_tsvector('{zzz}') WHERE id = 5`)
  let forgotten = Promise.resolve()
  await indexNextUsers(
    onceQueried(connections, 'FROM users WHERE id >', async () => {
      forgotten = forgetIndexedWords(connectTo(url))
      await Promise.race([forgotten, untilOneWaits(url)])
    }),
  )
  await forgotten
  await tasksOn(url).migrate()
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
})

/** Connections that wait for `work` after the first statement with this text. */
function onceQueried(
  connections: Connections,
  text: string,
  work: () => Promise<void>,
): Connections {
  let isDone = false
  return {
    ...connections,
    transaction: (run, options) =>
      connections.transaction(session => {
        const query: Session['query'] = async (statement, values) => {
          const rows = await session.query(statement, values)
          if (!isDone && statement.text.includes(text)) {
            isDone = true
            await work()
          }
          return rows as never
        }
        return run({ query })
      }, options),
  }
}

/** Until a session waits for a lock. */
async function untilOneWaits(url: string): Promise<void> {
  const select = `
    SELECT count(*)::int AS waiting FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`
  await until(async () => (await queryPostgres(url, select))[0]?.waiting)
}

test('a search is refused while users without words cannot be indexed', async () => {
  const url = await copyPostgresTemplate()
  const storage = await openStorage(url)
  onTestFinished(storage.close)
  await queryPostgres(url, fill(1, 10))
  const other = await connectToPostgres(url)
  onTestFinished(() => other.end())
  await other.query('BEGIN; SELECT FROM users WHERE id = 5 FOR UPDATE')
  await expect(count(storage, 'filled')).rejects.toMatchObject({ code: 'words_unavailable' })
  await other.query('COMMIT')
  await untilPasses(async () => {
    expect(await count(storage, 'filled')).toBe(10)
  })
})

test('words are those of the user that another release changes while it is indexed', async () => {
  const url = await copyPostgresTemplate()
  const storage = await openStorage(url)
  onTestFinished(storage.close)
  await queryPostgres(url, fill(1, 10))
  const other = await connectToPostgres(url)
  onTestFinished(() => other.end())
  await other.query(`BEGIN; UPDATE users SET name = 'Other', name_lower = 'other' WHERE id = 5`)
  const early = count(storage, 'filled').catch(() => undefined)
  await sleep(20)
  await other.query('COMMIT')
  await early
  await untilPasses(async () => {
    expect([await count(storage, 'filled'), await count(storage, 'other')]).toEqual([9, 1])
  })
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
})

test.each([
  `UPDATE users_words SET words = array_to_tsvector('{filled}') WHERE id = 5`,
  'DELETE FROM users_words WHERE id = 5',
  `INSERT INTO users_words VALUES (999, array_to_tsvector('{zzz}'))`,
  'DELETE FROM users_words',
])('check finds that words differ after %s, and migrate --reindex mends it', async sql => {
  const url = await olderDatabase(600)
  const env = { DATABASE_URL: url }
  const cwd = temporaryFolder()
  expect(await run({ cwd, env, args: ['migrate'] })).toMatchObject({ code: 0, stderr: '' })
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
  await queryPostgres(url, sql)
  expect((await tasksOn(url).check()).faults).toEqual(FAULTS)
  expect(await run({ cwd, env, args: ['migrate', '--reindex'] })).toMatchObject({ code: 0 })
  expect(await tasksOn(url).check()).toMatchObject(SOUND)
})

test('lists with words are made anew after migrate --reindex', async () => {
  const url = await olderDatabase(10)
  const storage = await openStorage(url)
  onTestFinished(storage.close)
  await tasksOn(url).migrate()
  await queryPostgres(url, `UPDATE users_words SET words = array_to_tsvector('{zzz}') WHERE id = 5`)
  expect(await count(storage, 'zzz')).toBe(1)
  const revision = await storage.users.revision()
  await tasksOn(url).migrate({ reindex: true })
  expect(await count(storage, 'zzz')).toBe(0)
  expect(await storage.users.revision()).not.toBe(revision)
})

test('words of another version are made again at the start', async () => {
  const url = await copyPostgresTemplate()
  await queryPostgres(
    url,
    `${fill(1, 10)} DELETE FROM users_without_words; UPDATE users_words_state SET words_version = 0`,
  )
  const storage = await openStorage(url, () => {})
  onTestFinished(storage.close)
  await untilPasses(async () => {
    expect(await count(storage, 'filled')).toBe(10)
  })
})

test('import and copy write the words of all users', async () => {
  const [from, to] = [await newPostgresDatabase(), await newPostgresDatabase()]
  const cwd = temporaryFolder()
  const users = Array.from({ length: 30 }, (_, index) =>
    JSON.stringify({ name: `Zoë ${index}`, email: `u${index}@x.co`, id: 100 - index }),
  )
  const imported = (lines: readonly string[], ...more: string[]) =>
    run({
      cwd,
      env: { DATABASE_URL: from },
      args: ['import', '-', '--format', 'ndjson', ...more],
      input: lines.join('\n'),
    })
  expect(await imported(users)).toMatchObject({ code: 0 })
  const renamed = users.map(line => line.replace('Zoë', 'Bea'))
  expect(await imported(renamed.slice(0, 9), '--on-conflict', 'update')).toMatchObject({ code: 0 })
  expect(await queryPostgres(from, 'SELECT id FROM users_without_words')).toEqual([])
  expect(await tasksOn(from).check()).toMatchObject(SOUND)
  expect(await run({ cwd, args: ['copy', '--from', from, '--to', to] })).toMatchObject({ code: 0 })
  expect(await queryPostgres(to, 'SELECT id FROM users_without_words')).toEqual([])
  expect(await tasksOn(to).check()).toMatchObject(SOUND)
  const storage = await openStorage(to)
  onTestFinished(storage.close)
  expect([await count(storage, 'zoe'), await count(storage, 'bea')]).toEqual([21, 9])
})
