import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { byEngine, engine } from '../../support/engine.ts'
import { ask } from '../../support/json-requests.ts'
import { createMany } from '../../support/many-users.ts'
import { databaseIn } from '../../support/new-database.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { runCommand } from '../../support/run-command.ts'
import { executeSql, selectRows } from '../../support/sql.ts'
import { untilPasses } from '../../support/until.ts'

const NAMES = ['Zoë Ångström', 'Bea Lovelace', 'Cid Lovelace', 'Марʼяна']

/** A database with users, and commands on it. */
async function openPlace(count = NAMES.length) {
  const cwd = temporaryFolder()
  const url = await databaseIn(cwd)
  const env = { DATABASE_URL: url }
  const names = Array.from({ length: count }, (_, nth) => NAMES[nth % NAMES.length] ?? '')
  const service = await openTestApp({ env })
  await createMany(
    service,
    names.map(name => newUserBody({ name }).user),
  )
  await service.stop()
  const run = async (...args: string[]) => {
    const ended = await runCommand({ cwd, env, args })
    return { ...ended, report: ended.stdout.startsWith('{') ? JSON.parse(ended.stdout) : {} }
  }
  const faults = async () => (await run('check', '--json')).report.faults
  return { url, env, run, faults, sql: (text: string) => executeSql(url, text) }
}

/** The ids of the users that a search finds. */
async function found(service: TestApp, q: string): Promise<number[]> {
  const { status, body } = await ask(service, `GET /users?q=${encodeURIComponent(q)}`)
  expect(status).toBe(200)
  return body.map(({ id }: { id: number }) => id)
}

const WRONG = byEngine({
  sqlite: `UPDATE users SET words = 'zzz x'`,
  postgres: `UPDATE users SET words = array_to_tsvector('{zzz,x}')`,
})

const FAULT =
  'the index of words differs from the users, so `q` finds too many or too few: run `migrate --reindex`'

test.each([
  `${WRONG} WHERE id = 3`,
  `UPDATE users SET words = '' WHERE id = 3`,
  `UPDATE users SET name = 'Other', name_lower = 'other' WHERE id = 3`,
  ...byEngine({
    sqlite: [
      `INSERT INTO users_words (rowid, words) VALUES (3, 'zzz')`,
      `INSERT INTO users_words (rowid, words) VALUES (999, 'zzz')`,
      `INSERT INTO users_words (users_words, rowid, words) VALUES ('delete', 3, 'lovelace')`,
      `INSERT INTO users_words (users_words) VALUES ('delete-all')`,
      // As if the trigger had been off when users without words were made.
      `UPDATE users SET words = '';
       INSERT INTO users_words (users_words, rowid, words) SELECT 'delete', id, '' FROM users`,
    ],
    postgres: [],
  }),
])(
  'check finds that words differ after %s, and migrate --reindex mends it beside a service',
  async sql => {
    const { env, faults, run, sql: execute } = await openPlace()
    await execute(sql)
    expect(await faults()).toEqual([FAULT])
    const service = await openTestApp({ env })
    expect(await run('migrate', '--reindex')).toMatchObject({ code: 0 })
    expect(await faults()).toEqual([])
    const name = sql.includes('Other') ? 'other' : 'lovelace'
    expect(await found(service, name)).toContain(3)
    expect(await found(service, 'zzz')).toEqual([])
    await ask(service, 'PUT /users/3', { user: { name: 'Dora' } })
    expect([await found(service, 'dora'), await found(service, name)]).toEqual([
      [3],
      name === 'other' ? [] : [2],
    ])
  },
)

test('a start makes words of older rules again while it serves, says so, and changes nothing else', async () => {
  const { url, env, faults, sql } = await openPlace(1200)
  const rows = () => selectRows(url, 'SELECT id, name, updated_at FROM users ORDER BY id')
  const before = await rows()
  const etag = async (service: TestApp) =>
    (await ask(service, 'GET /users?q=lovelace&per_page=1')).headers.get('ETag')
  const earlier = await openTestApp({ env })
  const first = await etag(earlier)
  await earlier.stop()
  await sql(`${WRONG}; UPDATE words_rules SET version = 1`)
  const service = await openTestApp({ env })
  await untilPasses(async () =>
    expect(service.logLines.map(({ msg }) => msg)).toContain(
      'words of users are those of this release',
    ),
  )
  expect(service.logLines).toContainEqual(
    expect.objectContaining({ msg: 'words of users are made again by newer rules', lastId: 1200 }),
  )
  expect(await etag(service)).not.toBe(first)
  expect(await found(service, 'lovelace cid')).toContain(3)
  expect(await found(service, 'zzz')).toEqual([])
  expect(await rows()).toEqual(before)
  await service.stop()
  expect(await faults()).toEqual([])
  const again = await openTestApp({ env })
  expect(again.logLines.map(({ msg }) => msg)).not.toContain(
    'words of users are those of this release',
  )
})

test('words of newer rules stay, and migrate makes those of older rules again', async () => {
  const { env, run, sql, faults } = await openPlace()
  await sql(`${WRONG}; UPDATE words_rules SET version = 2000000000`)
  const service = await openTestApp({ env })
  expect(await run('migrate')).toMatchObject({ code: 0 })
  expect(await found(service, 'zzz')).toEqual([1, 2, 3, 4])
  await sql('UPDATE words_rules SET version = 1')
  expect(await run('migrate')).toMatchObject({ code: 0 })
  expect(await faults()).toEqual([])
})

test('import, copy, backup, restore and compact leave an index of words that matches the users, and a start has none to make again', async () => {
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
  const count = async (q: string) => (await found(service, q)).length
  expect([await count('bea'), await count('zoe')]).toEqual([9, 21])
  await service.stop()
  expect(service.logLines.map(({ msg }) => msg).filter(msg => /^words/.test(`${msg}`))).toEqual([])
})
