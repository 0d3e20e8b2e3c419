import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDatabase } from '../../faults/databases.ts'
import { forgetInIndex, overwritePages } from '../../support/damage.ts'
import { execute } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

function placeWithUsers({ users = 20, ...schema }: { users?: number; migrations?: number } = {}) {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  makeDatabase(path, { users, ...schema })
  return { cwd, path }
}

function check(cwd: string, env = {}) {
  return runCommand({ cwd, args: ['check'], env })
}

test('check says that a database is sound, also while a service writes to it', async () => {
  const { cwd, path } = placeWithUsers()
  const sound = { code: 0, stdout: './data/users.db: sound\n', stderr: '' }
  expect(await check(cwd)).toEqual(sound)
  const service = await openTestApp({ env: { DATABASE_URL: path } })
  let isOver = false
  const writing = (async () => {
    while (!isOver) await ask(service, 'PUT /users/1', { user: { name: `${Math.random()}` } })
  })()
  const checked = await check(cwd).finally(() => {
    isOver = true
  })
  await writing
  expect(checked).toEqual(sound)
})

test('check names the migrations that are pending, and applies none', async () => {
  const { cwd } = placeWithUsers({ migrations: 2 })
  for (let count = 0; count < 2; count++) {
    const { code, stdout } = await check(cwd)
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /^\.\/data\/users\.db: sound\npending, for the next start or `migrate`: 0003_\w+, 0004_/,
    )
  }
})

test('check --json prints the same for programs, with the same exit codes', async () => {
  const { cwd, path } = placeWithUsers({ migrations: 2 })
  const checked = async () => {
    const { code, stdout, stderr } = await runCommand({ cwd, args: ['check', '--json'] })
    expect(stderr).toBe('')
    return { code, ...JSON.parse(stdout) }
  }
  const sound = { code: 0, database: './data/users.db', sound: true, faults: [] }
  expect(await checked()).toEqual({ ...sound, pending: expect.arrayContaining(['0004_keep_bans']) })
  execute(path, 'DROP TRIGGER users_deleted')
  expect(await checked()).toMatchObject({
    code: 3,
    sound: false,
    faults: ['the trigger users_deleted is missing'],
  })
})

test.each<[what: string, sql: string, found: RegExp]>([
  [
    'a count of users',
    'UPDATE users_summary SET user_count = 18',
    /: 2 is the difference between users_summary\.user_count and the number of users$/m,
  ],
  ['the count of users as such', 'DELETE FROM users_summary', /users_summary\.user_count/],
  [
    'ids',
    `UPDATE sqlite_sequence SET seq = 15 WHERE name = 'users'`,
    /: 5 existing ids would be used again$/m,
  ],
  [
    'a name in lower case',
    `UPDATE users SET name_lower = 'other' WHERE id = 3`,
    /: 1 users cannot be found by their name/,
  ],
  [
    'an index that is missing',
    'DROP INDEX users_by_name',
    /: the index users_by_name is missing$/m,
  ],
  [
    'a trigger that is missing',
    'DROP TRIGGER users_deleted',
    /: the trigger users_deleted is missing$/m,
  ],
  [
    'a table that is changed',
    'ALTER TABLE users ADD COLUMN age INTEGER',
    /: the table users differs from the one that the migrations make$/m,
  ],
  [
    'a value that breaks a constraint',
    `PRAGMA ignore_check_constraints = ON; UPDATE users SET created_at = 'now'`,
    /: 20 users break a constraint of their table$/m,
  ],
  [
    'a newer schema',
    `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`,
    /: its schema version 99 is from a newer release/,
  ],
  [
    'another migration',
    `UPDATE schema_migrations SET hash = 'x' WHERE version = 2`,
    /: its migration 0002_list_users differs from the one in this release$/m,
  ],
  [
    'an answer of a deleted user',
    `INSERT INTO idempotency_keys VALUES (zeroblob(32), 99, 'f', 'v', '{}', 0)`,
    /: 1 answers are stored for an Idempotency-Key whose user is deleted$/m,
  ],
  [
    'an API key without a whole hash',
    `PRAGMA ignore_check_constraints = ON;
      INSERT INTO api_keys VALUES ('web', zeroblob(31), 'users:read', 1, NULL, NULL)`,
    /: 1 API keys break a constraint of their table$/m,
  ],
  [
    'a trigger by which processes notice revoked keys',
    'DROP TRIGGER api_keys_deleted',
    /: the trigger api_keys_deleted is missing$/m,
  ],
])('check finds %s with exit code 3 and a line for each', async (_what, sql, found) => {
  const { cwd, path } = placeWithUsers()
  execute(path, sql)
  const { code, stdout, stderr } = await check(cwd)
  expect({ code, stderr }).toEqual({ code: 3, stderr: '' })
  expect(stdout).toMatch(found)
  expect(stdout).not.toContain('sound')
  for (const line of stdout.trimEnd().split('\n')) expect(line).toMatch(/^\.\/data\/users\.db: /)
})

test.each<{ what: string; prepare: (path: string) => void; found: RegExp }>([
  {
    what: 'a page of garbage',
    prepare: path => overwritePages(path, 'garbage ', { from: 20, to: 21 }),
    found: /(?:Tree|page|damaged)/,
  },
  {
    what: 'an index that lacks a row',
    prepare: forgetInIndex,
    found: /row \d+ missing from index users_by_name/,
  },
  {
    what: 'a text',
    prepare: path => writeFileSync(path, 'a text'),
    found: /: it is not a SQLite database$/m,
  },
  {
    what: 'the database of another program',
    prepare: path => execute(`${path}`, 'DROP TABLE schema_migrations'),
    found: /: it is the database of another program$/m,
  },
])('check finds $what with exit code 3', async ({ prepare, found }) => {
  const { cwd, path } = placeWithUsers({ users: 3000 })
  prepare(path)
  const { code, stdout, stderr } = await check(cwd)
  expect({ code, stderr }).toEqual({ code: 3, stderr: '' })
  expect(stdout).toMatch(found)
})

test.each([
  ['./none.db', /^DATABASE_URL was ".\/none\.db": there is no such file\n$/],
  [
    ':memory:',
    /^DATABASE_URL was ":memory:": such a database is in the memory of the service, and no other process can reach it\n$/,
  ],
  ['./data', /^DATABASE_URL was ".\/data": .*\n$/],
])('check of %s cannot be done', async (url, line) => {
  const { cwd } = placeWithUsers()
  const { code, stdout, stderr } = await check(cwd, { DATABASE_URL: url })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(line)
})
