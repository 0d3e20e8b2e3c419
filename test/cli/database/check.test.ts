import { copyFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openPlace } from '../../support/command-place.ts'
import { forgetInIndex } from '../../support/damage.ts'
import { execute } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { stdoutOf } from '../../support/run-command.ts'

test('check says that a database is sound, also while a service writes to it', async () => {
  const { path, run } = openPlace({ users: 20 })
  const sound = { code: 0, stdout: './data/users.db: sound\n', stderr: '' }
  expect(await run('check')).toEqual(sound)
  const service = await openTestApp({ env: { DATABASE_URL: path } })
  let isOver = false
  const writing = (async () => {
    while (!isOver) await ask(service, 'PUT /users/1', { user: { name: `${Math.random()}` } })
  })()
  const checked = await run('check').finally(() => {
    isOver = true
  })
  await writing
  expect(checked).toEqual(sound)
})

test('backup and restore end too, and name the id, where a file holds one that no number of JavaScript is', async () => {
  const { path, file, run } = openPlace({ users: 3 })
  execute(path, 'UPDATE users SET id = 9007199254740993 WHERE id = 3')
  copyFileSync(path, file)
  const found = /: 1 users have ids that are not 1 to 9007199254740991: 9007199254740993\n$/
  for (const command of [
    ['backup', 'other.db'],
    ['restore', 'copy.db'],
  ]) {
    const refused = { code: 1, stdout: '', stderr: expect.stringMatching(found) }
    expect(await run(...command)).toEqual(refused)
  }
})

const UNCHECKED = 'PRAGMA ignore_check_constraints = ON;'

/** What is found after this SQL; without any, an index is spoiled that no SQL can spoil. */
const FOUND: Readonly<Record<string, string>> = {
  '2 is the difference between users_summary.user_count and the number of users':
    'UPDATE users_summary SET user_count = 18',
  '5 existing ids would be used again': `UPDATE sqlite_sequence SET seq = 15 WHERE name = 'users'`,
  '1 users cannot be found by their name: name_lower is not the name in lower case':
    "UPDATE users SET name_lower = 'other' WHERE id = 3",
  'the index users_by_name is missing': 'DROP INDEX users_by_name',
  'the trigger api_keys_deleted is missing': 'DROP TRIGGER api_keys_deleted',
  'the table users differs from the one that the migrations make':
    'ALTER TABLE users ADD COLUMN age INTEGER',
  '20 users break a constraint of their table': `${UNCHECKED} UPDATE users SET created_at = 'now'`,
  '1 answers are stored for an Idempotency-Key whose user is deleted':
    "INSERT INTO idempotency_keys VALUES (zeroblob(32), 99, 'f', 'v', '{}', 0)",
  '1 API keys break a constraint of their table': `${UNCHECKED}
    INSERT INTO api_keys VALUES ('web', zeroblob(31), 'users:read', 1, NULL, NULL)`,
  '6 users have ids that are not 1 to 9007199254740991: -9223372036854775808, -9007199254740993, 0, 9007199254740992, 9007199254740993, …': `
    INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
    SELECT value, 'Ann', 'ann', value || '@x.co', created_at, updated_at FROM users,
      json_each('[-9223372036854775808, -9007199254740993, 0, 9007199254740992, 9007199254740993, 9223372036854775807]')
    WHERE users.id = 1`,
  '1 row of words_rules is missing': 'DELETE FROM words_rules',
  'row 1500 missing from index users_by_name': '',
}

test.each(Object.entries(FOUND))('check finds that %s, with exit code 3', async (found, sql) => {
  const { path, run } = openPlace({ users: sql === '' ? 3000 : 20 })
  if (sql === '') forgetInIndex(path)
  else execute(path, sql)
  const stdout = await stdoutOf(run('check'), 3)
  expect(stdout).toContain(`./data/users.db: ${found}\n`)
  expect(stdout).not.toContain('sound')
})
