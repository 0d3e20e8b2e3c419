import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDatabase } from '../../faults/databases.ts'
import { execute } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'
import { untilPasses } from '../../support/until.ts'

const WORDS_MIGRATION = 13

/** A folder with the database of an older release. */
function placeWithOlder(users: number) {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  makeDatabase(path, { users, migrations: WORDS_MIGRATION - 1 })
  return { cwd, path }
}

/** On a slow machine, commands also say on standard error how far they are. */
const SOUND = { code: 0, stdout: './data/users.db: sound\n' }

const FAULT = {
  code: 3,
  stdout:
    './data/users.db: the index of words differs from the users, so `q` finds too many or too few: run `migrate --reindex`\n',
}

test('a service indexes the users of an older release while it serves', async () => {
  const { cwd, path } = placeWithOlder(20_000)
  const service = await openTestApp({ env: { DATABASE_URL: path } })
  const created = await ask(service, 'POST /users', {
    user: { name: 'Newly Made', email: 'new@example.com' },
  })
  expect(created.status).toBe(201)
  await ask(service, 'PUT /users/7', { user: { name: 'Changed Early' } })
  await ask(service, 'PUT /users/19000', { user: { name: 'Changed Late' } })
  await ask(service, 'DELETE /users/8')
  await ask(service, 'DELETE /users/19001')
  const early = await ask(service, 'GET /users?q=newly')
  if (early.status !== 200) {
    expect(early).toMatchObject({ status: 503, body: { reason: 'words_unavailable' } })
  }
  expect((await ask(service, 'GET /users?per_page=1')).status).toBe(200)
  await untilPasses(async () => {
    expect((await ask(service, 'GET /users?q=newly')).status).toBe(200)
  })
  for (const [q, count] of [
    ['newly', 1],
    ['changed', 2],
    ['changed early', 1],
    ['filled', 19_996],
    ['filled 12345', 1],
    ['19001', 0],
  ] as const) {
    const { body } = await ask(
      service,
      `GET /users?q=${encodeURIComponent(q)}&per_page=1&count=true&envelope=true`,
    )
    expect([q, (body as { total_count: number }).total_count]).toEqual([q, count])
  }
  await service.stop()
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(SOUND)
})

test('migrate indexes all users, also if it goes on where another process stopped', async () => {
  const { cwd, path } = placeWithOlder(12_000)
  const migrated = await runCommand({ cwd, args: ['migrate'] })
  expect(migrated).toMatchObject({ code: 0 })
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(SOUND)
  // As if it had been stopped between two transactions.
  execute(
    path,
    `INSERT INTO users_words (users_words) VALUES ('delete-all');
     UPDATE users_words_state SET indexed_through = 0`,
  )
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(SOUND)
  expect(await runCommand({ cwd, args: ['migrate'] })).toMatchObject({ code: 0 })
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(SOUND)
  execute(path, 'UPDATE users_words_state SET indexed_through = 11999')
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(FAULT)
})

test.each([
  [`UPDATE users SET name = 'Other', name_lower = 'other' WHERE id = 5`],
  ['DELETE FROM users WHERE id = 5'],
  [`INSERT INTO users_words (rowid, prefixes) VALUES (3, 'zzz')`],
  [`INSERT INTO users_words (users_words) VALUES ('delete-all')`],
])('check finds that words differ after %s, and migrate --reindex mends it', async sql => {
  const { cwd, path } = placeWithOlder(10)
  await runCommand({ cwd, args: ['migrate'] })
  execute(path, sql)
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(FAULT)
  expect(await runCommand({ cwd, args: ['migrate', '--reindex'] })).toMatchObject({ code: 0 })
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(SOUND)
})

test('lists with q are made anew after migrate --reindex', async () => {
  const { cwd, path } = placeWithOlder(10)
  await runCommand({ cwd, args: ['migrate'] })
  execute(path, `INSERT INTO users_words (rowid, prefixes) VALUES (3, 'zzz')`)
  const service = await openTestApp({ env: { DATABASE_URL: path } })
  const wrong = await ask(service, 'GET /users?q=zzz')
  expect(wrong.body).toMatchObject([{ id: 3 }])
  expect(await runCommand({ cwd, args: ['migrate', '--reindex'] })).toMatchObject({ code: 0 })
  const right = await ask(service, 'GET /users?q=zzz', undefined, {
    'If-None-Match': wrong.headers.get('ETag') ?? '',
  })
  expect([right.status, right.body]).toEqual([200, []])
  await service.stop()
})

test('a service goes on with an index that another process emptied and left', async () => {
  const { cwd, path } = placeWithOlder(3000)
  await runCommand({ cwd, args: ['migrate'] })
  const service = await openTestApp({ env: { DATABASE_URL: path } })
  // As if `migrate --reindex` had been killed.
  execute(
    path,
    `INSERT INTO users_words (users_words) VALUES ('delete-all');
       UPDATE users_words_state SET indexed_through = 0`,
  )
  await untilPasses(async () => {
    expect((await ask(service, 'GET /users?q=filled&per_page=1')).status).toBe(200)
  })
  await service.stop()
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(SOUND)
})

test('migrate refuses --reindex together with --status', async () => {
  const { cwd } = placeWithOlder(1)
  const { code, stderr } = await runCommand({ cwd, args: ['migrate', '--status', '--reindex'] })
  expect(code).toBe(2)
  expect(stderr).toContain('--reindex')
})

test('an index of another version of the words is built again at the start', async () => {
  const { cwd, path } = placeWithOlder(10)
  await runCommand({ cwd, args: ['migrate'] })
  execute(
    path,
    `INSERT INTO users_words (users_words) VALUES ('delete-all');
     UPDATE users_words_state SET words_version = 0`,
  )
  const service = await openTestApp({ env: { DATABASE_URL: path } })
  await untilPasses(async () => {
    expect(await ask(service, 'GET /users?q=filled&per_page=1')).toMatchObject({ status: 200 })
  })
  await service.stop()
  expect(await runCommand({ cwd, args: ['check'] })).toMatchObject(SOUND)
})

test('import, copy, backup and restore leave an index of words that matches the users', async () => {
  const cwd = temporaryFolder()
  const env = { DATABASE_URL: 'file:from.db' }
  const users = Array.from({ length: 30 }, (_, index) =>
    JSON.stringify({ name: `Zoë ${index}`, email: `u${index}@x.co`, id: 100 - index }),
  )
  const ran = (args: string[], input = '', database = env) =>
    runCommand({ cwd, args, env: database, input })
  expect(await ran(['import', '-', '--format', 'ndjson'], users.join('\n'))).toMatchObject({
    code: 0,
  })
  const again = users.map(line => line.replace('Zoë', 'Bea'))
  const update = ['import', '-', '--format', 'ndjson', '--on-conflict', 'update']
  expect(await ran(update, again.slice(0, 9).join('\n'))).toMatchObject({ code: 0 })
  expect(await ran(['check'])).toMatchObject({ code: 0 })
  expect(await ran(['copy', '--from', 'from.db', '--to', 'to.db'])).toMatchObject({ code: 0 })
  const ofCopy = { DATABASE_URL: 'file:to.db' }
  expect(await ran(['check'], '', ofCopy)).toMatchObject({ code: 0 })
  expect(await ran(['backup', 'backup.db'])).toMatchObject({ code: 0 })
  expect(await ran(['restore', 'backup.db'], '', ofCopy)).toMatchObject({ code: 0 })
  expect(await ran(['compact'], '', ofCopy)).toMatchObject({ code: 0 })
  expect(await ran(['check'], '', ofCopy)).toMatchObject({ code: 0 })
  const service = await openTestApp({ env: { DATABASE_URL: join(cwd, 'to.db') } })
  expect((await ask(service, 'GET /users?q=bea')).body).toHaveLength(9)
  expect((await ask(service, 'GET /users?q=zoe')).body).toHaveLength(21)
  await service.stop()
})
