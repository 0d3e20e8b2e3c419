import { join } from 'node:path'
import { expect, test } from 'vitest'
import { migratePostgres } from '../../../src/storage/postgres/postgres-migrator.ts'
import { makeDatabase } from '../../faults/databases.ts'
import { byEngine, engine } from '../../support/engine.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { connectTo, insertUsers } from '../../support/postgres-connections.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { runCommand } from '../../support/run-command.ts'
import { executeSql, selectRows } from '../../support/sql.ts'
import { untilPasses } from '../../support/until.ts'

/** A database whose users have no words yet, and commands on it. */
async function openOlder(users: number) {
  const cwd = temporaryFolder()
  const path = join(cwd, 'users.db')
  if (engine === 'sqlite') makeDatabase(path, { users })
  const url = engine === 'sqlite' ? path : await olderPostgres(users)
  const env = { DATABASE_URL: url }
  const faults = async () => {
    const { stdout } = await runCommand({ cwd, env, args: ['check', '--json'] })
    return JSON.parse(stdout).faults
  }
  const migrate = async (...args: string[]) => {
    const ended = await runCommand({ cwd, env, args: ['migrate', ...args] })
    expect(ended).toMatchObject({ code: 0 })
  }
  return { url, env, faults, migrate, open: () => openTestApp({ env }) }
}

async function olderPostgres(users: number): Promise<string> {
  const url = await newPostgresDatabase()
  await migratePostgres({ connections: connectTo(url), now: Date.now })
  await executeSql(url, insertUsers(1, users))
  await executeSql(url, 'UPDATE users_words_state SET indexed_through = 0')
  return url
}

/** How many users a search finds, once it is not refused because users are being indexed. */
async function found(service: TestApp, q: string): Promise<number> {
  const path = `GET /users?q=${encodeURIComponent(q)}&per_page=1&count=true`
  return untilPasses(async () => {
    const { status, headers } = await ask(service, path)
    expect(status).toBe(200)
    return Number(headers.get('X-Total-Count'))
  })
}

test('services index the users of an older release together while they serve', async () => {
  const { faults, open } = await openOlder(5000)
  const [one, two] = await Promise.all([open(), open()])
  const user = { name: 'Newly Made', email: 'new@example.com' }
  expect((await ask(one, 'POST /users', { user })).status).toBe(201)
  await ask(two, 'PUT /users/7', { user: { name: 'Changed Early' } })
  await ask(one, 'PUT /users/4900', { user: { name: 'Changed Late' } })
  await ask(two, 'DELETE /users/8')
  await ask(one, 'DELETE /users/4901')
  const early = await ask(two, 'GET /users?q=newly')
  if (early.status !== 200) {
    expect(early).toMatchObject({ status: 503, body: { reason: 'words_unavailable' } })
  }
  expect((await ask(one, 'GET /users?per_page=1')).status).toBe(200)
  for (const [q, count] of [
    ['newly', 1],
    ['changed', 2],
    ['changed early', 1],
    ['filled', 4996],
    ['filled 1234', 1],
    ['4901', 0],
  ] as const) {
    expect([q, await found(two, q)]).toEqual([q, count])
  }
  await Promise.all([one.stop(), two.stop()])
  expect(await faults()).toEqual([])
})

const FAULT =
  'the index of words differs from the users, so `q` finds too many or too few: run `migrate --reindex`'

const EMPTY = byEngine({
  sqlite: `INSERT INTO users_words (users_words) VALUES ('delete-all')`,
  postgres: 'DELETE FROM users_words',
})

const SPOIL = byEngine({
  sqlite: `INSERT INTO users_words (rowid, prefixes) VALUES (3, 'zzz')`,
  postgres: `UPDATE users_words SET words = array_to_tsvector('{zzz}') WHERE id = 3`,
})

test.each([
  SPOIL,
  EMPTY,
  ...byEngine({
    sqlite: [
      `UPDATE users SET name = 'Other', name_lower = 'other' WHERE id = 5`,
      'DELETE FROM users WHERE id = 5',
      'UPDATE users_words_state SET indexed_through = 9',
    ],
    postgres: [
      'DELETE FROM users_words WHERE id = 5',
      `INSERT INTO users_words VALUES (999, array_to_tsvector('{zzz}'))`,
    ],
  }),
])('check finds that words differ after %s, and migrate --reindex mends it', async sql => {
  const { url, faults, migrate } = await openOlder(10)
  await migrate()
  await executeSql(url, sql)
  expect(await faults()).toEqual([FAULT])
  await migrate('--reindex')
  expect(await faults()).toEqual([])
})

test('an index that another release has left, or a killed migrate --reindex, is completed', async () => {
  const { url, faults, migrate, open } = await openOlder(1200)
  await migrate()
  await executeSql(url, `${EMPTY}; UPDATE users_words_state SET words_version = 0`)
  expect(await faults()).toEqual([])
  const service = await open()
  expect(await found(service, 'filled')).toBe(1200)
  await executeSql(url, `${EMPTY}; UPDATE users_words_state SET indexed_through = 0`)
  expect(await found(service, 'filled')).toBe(1200)
  await service.stop()
  expect(await faults()).toEqual([])
})

test('a service beside one with newer rules of words leaves the words of users to that one', async () => {
  const { url, faults, migrate, open } = await openOlder(20)
  const [older, beside] = await Promise.all([open(), open()])
  expect(await found(older, 'filled')).toBe(20)
  const setNewer = (by: number) =>
    executeSql(url, `UPDATE users_words_state SET words_version = words_version + ${by}`)
  const noted = async () =>
    (await selectRows(url, 'SELECT id FROM users_without_words ORDER BY id')).map(({ id }) => id)
  await setNewer(1)
  const user = { name: 'Newly Made', email: 'new@example.com' }
  const { id } = (await ask(older, 'POST /users', { user })).body
  await ask(older, 'PUT /users/7', { user: { name: 'Changed' } })
  await ask(older, 'PUT /users/8', { user: { name: 'Deleted' } })
  await ask(older, 'DELETE /users/8')
  await ask(older, 'PUT /users/9', { user: { password: 'correct horse' } })
  expect(await noted()).toEqual(expect.arrayContaining([7, id]))
  await migrate()
  expect(await noted()).toEqual(expect.arrayContaining([7, id]))
  await setNewer(-1)
  for (const [q, count] of [
    ['newly', 1],
    ['changed', 1],
    ['filled', 18],
    ['deleted', 0],
  ] as const) {
    expect([q, await found(beside, q)]).toEqual([q, count])
  }
  expect(await noted()).toEqual([])
  await Promise.all([older.stop(), beside.stop()])
  expect(await faults()).toEqual([])
})

test('a service beside one with newer rules of words does not index for it', async () => {
  const { url, migrate } = await openOlder(20)
  await migrate()
  await executeSql(
    url,
    `${EMPTY}; UPDATE users_words_state SET words_version = words_version + 1, indexed_through = 0`,
  )
  await migrate()
  expect(await selectRows(url, 'SELECT indexed_through FROM users_words_state')).toEqual([
    { indexed_through: 0 },
  ])
})

test('import, copy, backup, restore and compact leave an index of words that matches the users', async () => {
  const cwd = temporaryFolder()
  const urls = { sqlite: ['from.db', 'to.db'], postgres: ['', ''] }[engine]
  for (const at of [0, 1]) urls[at] ||= await newPostgresDatabase()
  const [from = '', to = ''] = urls
  const run = async (url: string, args: string[], lines: string[] = []) => {
    const input = lines.join('\n')
    const ended = await runCommand({ cwd, args, env: { DATABASE_URL: url }, input })
    expect({ args, ...ended }).toMatchObject({ args, code: 0 })
  }
  const users = Array.from({ length: 30 }, (_, index) =>
    JSON.stringify({ name: `Zoë ${index}`, email: `u${index}@x.co`, id: 100 - index }),
  )
  const again = users.slice(0, 9).map(line => line.replace('Zoë', 'Bea'))
  await run(from, ['import', '-'], users)
  await run(from, ['import', '-', '--on-conflict', 'update'], again)
  await run(from, ['check'])
  await run(from, ['copy', '--from', from, '--to', to])
  if (engine === 'sqlite') {
    await run(from, ['backup', 'backup.db'])
    await run(to, ['restore', 'backup.db'])
    await run(to, ['compact'])
  }
  await run(to, ['check'])
  const DATABASE_URL = engine === 'sqlite' ? join(cwd, to) : to
  const service = await openTestApp({ env: { DATABASE_URL } })
  expect([await found(service, 'bea'), await found(service, 'zoe')]).toEqual([9, 21])
})
