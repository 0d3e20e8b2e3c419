import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test, vi } from 'vitest'
import { makeDatabase } from '../faults/databases.ts'
import { overwritePages } from '../support/damage.ts'
import { execute } from '../support/databases.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, spawnMain, spawnService } from '../support/spawn-service.ts'

function placeWithUsers({ users = 20, ...schema }: { users?: number; migrations?: number } = {}) {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  makeDatabase(path, { users, ...schema })
  return { cwd, path }
}

function check(cwd: string, env = {}) {
  return run({ cwd, args: ['check'], env })
}

test('check says that a database is sound, also while a service writes to it', async () => {
  const { cwd } = placeWithUsers()
  const sound = { code: 0, stdout: './data/users.db: sound\n', stderr: '' }
  expect(await check(cwd)).toEqual(sound)
  const service = await spawnService({ cwd })
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

test.each<{ what: string; sql: string; found: RegExp }>([
  {
    what: 'a count of users',
    sql: 'UPDATE users_summary SET user_count = 18',
    found: /: 2 is how far users_summary\.user_count is from the number of users$/m,
  },
  {
    what: 'the count of users as such',
    sql: 'DELETE FROM users_summary',
    found: /users_summary\.user_count/,
  },
  {
    what: 'ids',
    sql: `UPDATE sqlite_sequence SET seq = 15 WHERE name = 'users'`,
    found: /: 5 ids that are there would be given out again$/m,
  },
  {
    what: 'a name in lower case',
    sql: `UPDATE users SET name_lower = 'other' WHERE id = 3`,
    found: /: 1 users cannot be found by their name/,
  },
  {
    what: 'an index that is missing',
    sql: 'DROP INDEX users_by_name',
    found: /: the index users_by_name is missing$/m,
  },
  {
    what: 'a trigger that is missing',
    sql: 'DROP TRIGGER users_deleted',
    found: /: the trigger users_deleted is missing$/m,
  },
  {
    what: 'a table that is changed',
    sql: 'ALTER TABLE users ADD COLUMN age INTEGER',
    found: /: the table users is not the one that a migration made$/m,
  },
  {
    what: 'a column that may not hold it',
    sql: `PRAGMA ignore_check_constraints = ON; UPDATE users SET created_at = 'now'`,
    found: /: 20 users hold what their columns may not hold$/m,
  },
  {
    what: 'a newer schema',
    sql: `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`,
    found: /: its schema is of version 99 and this release knows/,
  },
  {
    what: 'a migration that is another',
    sql: `UPDATE schema_migrations SET hash = 'x' WHERE version = 2`,
    found: /: its migration 0002_list_users is not the one in this release$/m,
  },
  {
    what: 'an answer of a deleted user',
    sql: `INSERT INTO idempotency_keys VALUES (zeroblob(32), 99, 'f', 'v', '{}', 0)`,
    found: /: 1 answers are kept for an Idempotency-Key whose user is deleted$/m,
  },
])('check finds $what with exit code 3, a line each', async ({ sql, found }) => {
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
    what: 'a page that makes no sense',
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
    found: /: it is no SQLite database$/m,
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
    /^DATABASE_URL was ":memory:": such a database is in the memory of the service, and nobody else can reach it\n$/,
  ],
  ['./data', /^DATABASE_URL was ".\/data": .*\n$/],
])('check of %s cannot be done', async (url, line) => {
  const { cwd } = placeWithUsers()
  const { code, stdout, stderr } = await check(cwd, { DATABASE_URL: url })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(line)
})

const isLinux = process.platform === 'linux'
if (!isLinux)
  console.log('a test of check is skipped: /proc, which tells when it is at work, is of Linux')

test.runIf(isLinux)(
  'check that a signal ends has its exit code, and leaves no process',
  async () => {
    const { cwd, path } = placeWithUsers()
    const locker = new Database(path)
    onTestFinished(() => {
      locker.close()
    })
    locker.exec('BEGIN EXCLUSIVE')
    const child = spawnMain({ cwd, args: ['check'] })
    const pid = child.process.pid
    const children = () => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
    await vi.waitUntil(() => children() !== '', { timeout: 20_000, interval: 5 })
    const worker = Number(children())
    child.process.kill('SIGTERM')
    expect(await child.exited).toEqual({ code: 143, stdout: '', stderr: '' })
    await vi.waitUntil(() => !isRunning(worker), { timeout: 20_000, interval: 5 })
  },
)

function isRunning(pid: number): boolean {
  return (
    existsSync(`/proc/${pid}`) && !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  )
}

/** What no statement can do, because each keeps the indexes: the index is made to look like that of fewer rows. */
function forgetInIndex(path: string): void {
  const database = new Database(path)
  database.unsafeMode()
  database.exec(`
    CREATE INDEX few ON users (name_lower) WHERE id < 1500;
    PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'few')
      WHERE name = 'users_by_name';
    DELETE FROM sqlite_schema WHERE name = 'few'`)
  database.close()
}
