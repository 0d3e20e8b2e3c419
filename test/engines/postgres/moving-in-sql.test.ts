import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { filesOf } from '../../support/old-systems.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { newPostgresDatabase, withPostgres } from '../../support/postgres-databases.ts'
import { canStartClusters, findPostgresBinaries } from '../../support/programs.ts'
import { readProject } from '../../support/project.ts'

// The columns that matter, of the types that those systems give them.
const TABLES = {
  Supabase: `
    CREATE SCHEMA auth;
    CREATE TABLE auth.users (id uuid PRIMARY KEY, email varchar(255), encrypted_password varchar(255),
      raw_user_meta_data jsonb, created_at timestamptz, banned_until timestamptz, deleted_at timestamptz);
    INSERT INTO auth.users
    SELECT gen_random_uuid(), email, encrypted_password, meta::jsonb, created_at::timestamptz, banned_until, deleted_at
    FROM (VALUES
      ('ann@example.com', '$2a$10$aV7bCq0ZrT3kYwLm9sXn1.cynjfahMNfezXePlD55gBT6RR6PnpzC', '{"name": "Ann Lee"}',
        '2023-07-22 04:26:40.123456+00', now() - interval '1 day', NULL),
      ('bob@example.com', '', '{}', '2024-02-29 23:59:59+00', NULL, NULL),
      ('eve@example.com', '', '{}', '2024-03-01 00:00:00+00', now() + interval '1 day', NULL),
      ('fay@example.com', '', '{}', '2024-03-01 00:00:00+00', NULL, now())
    ) AS users (email, encrypted_password, meta, created_at, banned_until, deleted_at)`,
  'Rails (Devise)': `
    CREATE TABLE users (id bigserial PRIMARY KEY, name varchar, email varchar NOT NULL DEFAULT '',
      encrypted_password varchar NOT NULL DEFAULT '', created_at timestamp(6) NOT NULL);
    INSERT INTO users (name, email, encrypted_password, created_at) VALUES
      ('Ann Lee', 'ann@example.com', '$2a$12$hQ2dEr5uJf8pKc1xBv6Mz.EkFvxYKt8FduLE6DyzIJWXo0mgYDPUO',
        '2023-07-22 04:26:40.123456'),
      ('bob', 'bob@example.com', '', '2024-02-29 23:59:59')`,
}

test.skipIf(!canStartClusters).each(Object.entries(TABLES))(
  'the export of %s in docs/moving-in.md writes the file that its import is tested on',
  async (heading, tables) => {
    const url = await newPostgresDatabase()
    await withPostgres(url, client => client.query(tables))
    const [, section = ''] = readProject('docs/moving-in.md').split(`\n## ${heading}\n`)
    const [, script = ''] = /^```bash\n([\s\S]*?)^```$/m.exec(section) ?? []
    const cwd = temporaryFolder()
    const PATH = [findPostgresBinaries(), process.env.PATH].join(delimiter)
    const env = { PATH, PGTZ: 'UTC', SUPABASE_URL: url, DATABASE_URL: url }
    await promisify(execFile)('sh', ['-ec', script], { cwd, env })
    const written = readFileSync(join(cwd, 'users.csv'), 'utf8')
    expect(written).toBe(filesOf(heading)['users.csv'])
  },
)
