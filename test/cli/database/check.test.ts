import { copyFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openPlace } from '../../support/command-place.ts'
import { createUser } from '../../support/create-user.ts'
import { forgetInIndex } from '../../support/damage.ts'
import { execute } from '../../support/databases.ts'
import { byEngine, isEngine } from '../../support/engine.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand, stdoutOf } from '../../support/run-command.ts'
import { openStored } from '../../support/stored.ts'

const onSqlite = test.runIf(isEngine('sqlite', 'files of check, backup and restore'))

const NO_HASH = byEngine({ sqlite: 'zeroblob(32)', postgres: `decode(repeat('00', 32), 'hex')` })

onSqlite('check says that a database is sound, also while a service writes to it', async () => {
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

onSqlite(
  'backup and restore end too, and name the id, where a file holds one that no number of JavaScript is',
  async () => {
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
  },
)

/** What check finds in a database of three users after this SQL. */
const FOUND: Readonly<Record<string, string>> = {
  '5 is the difference between users_summary.user_count and the number of users':
    'UPDATE users_summary SET user_count = user_count + 5',
  '1 existing ids would be used again': byEngine({
    sqlite: `UPDATE sqlite_sequence SET seq = 2 WHERE name = 'users'`,
    postgres: `SELECT setval('users_id_seq', 2)`,
  }),
  '2 users cannot be found by their name: name_lower is not the name in lower case': `
    UPDATE users SET name_lower = 'Ann'; UPDATE users SET name = 'ÄNN' WHERE id = 1`,
  '1 answers are stored for an Idempotency-Key whose user is deleted': `
    INSERT INTO idempotency_keys VALUES (${NO_HASH}, 99, 'f', '{}', 1)`,
  '1 API keys break a constraint of their table': byEngine({
    sqlite: `PRAGMA ignore_check_constraints = ON;
      INSERT INTO api_keys VALUES ('web', zeroblob(31), 'users:read', 1, NULL, NULL)`,
    postgres: `ALTER TABLE api_keys DROP CONSTRAINT api_keys_some_scopes;
      INSERT INTO api_keys VALUES ('web', sha256('x'), '', 1), ('ok', sha256('y'), 'users:read', 1);
      ALTER TABLE api_keys ADD CONSTRAINT api_keys_some_scopes CHECK (scopes <> '') NOT VALID`,
  }),
  ...byEngine<Record<string, string>>({
    sqlite: {
      'the index users_by_name is missing': 'DROP INDEX users_by_name',
      'the trigger api_keys_deleted is missing': 'DROP TRIGGER api_keys_deleted',
      'the table users differs from the one that the migrations make':
        'ALTER TABLE users ADD COLUMN age INTEGER',
      '3 users break a constraint of their table': `
        PRAGMA ignore_check_constraints = ON; UPDATE users SET created_at = 'now'`,
      '6 users have ids that are not 1 to 9007199254740991: -9223372036854775808, -9007199254740993, 0, 9007199254740992, 9007199254740993, …': `
        INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
        SELECT value, 'Ann', 'ann', value || '@x.co', created_at, updated_at FROM users,
          json_each('[-9223372036854775808, -9007199254740993, 0, 9007199254740992, 9007199254740993, 9223372036854775807]')
        WHERE users.id = 1`,
      '1 row of words_rules is missing': 'DELETE FROM words_rules',
    },
    postgres: {
      'it lacks what the migrations make: relation "words_rules" does not exist':
        'DROP TABLE words_rules',
      'the trigger users_deleted is disabled or missing':
        'ALTER TABLE users DISABLE TRIGGER users_deleted',
      '1 users have ids that are not 1 to 9007199254740991: -5': `
        ALTER TABLE users DROP CONSTRAINT users_id_positive;
        INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
        SELECT -5, name, name_lower, 'ann@x.co', created_at, updated_at FROM users WHERE id = 1`,
    },
  }),
  'its schema version 99 is from a newer release: this release knows only 1': `
    INSERT INTO schema_migrations VALUES (99, '', '', '')`,
}

test.each(Object.entries(FOUND))('check finds that %s, with exit code 3', async (found, sql) => {
  const { storage, databaseUrl, sql: run } = await openStored()
  for (const name of ['a', 'b', 'c']) {
    await createUser(storage.users, { name, email: `${name}@x.co`, passwordDigest: null })
  }
  await storage.close()
  await run(sql)
  const env = { DATABASE_URL: databaseUrl }
  const stdout = await stdoutOf(runCommand({ cwd: temporaryFolder(), args: ['check'], env }), 3)
  expect(stdout).toContain(`: ${found}\n`)
  expect(stdout).not.toContain('sound')
})

onSqlite('check finds a damaged index, with exit code 3', async () => {
  const { path, run } = openPlace({ users: 3000 })
  forgetInIndex(path)
  expect(await stdoutOf(run('check'), 3)).toContain(
    './data/users.db: row 1500 missing from index users_by_name\n',
  )
})
