import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import type { OpenStorageOptions } from '../../../src/storage/storage.ts'
import type { Commit } from '../../../src/storage/storage-report.ts'
import { describeStorage } from '../../contracts/storage-contract.ts'
import { describeStorageReport } from '../../contracts/storage-report-contract.ts'
import { locationOf, openStorage } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../support/postgres-databases.ts'
import { executeSql, selectRows } from '../../support/sql.ts'

describeStorage({
  name: 'PostgreSQL',
  newDatabase: async () => {
    const url = await newPostgresDatabase()
    return {
      engine: createPostgresEngine(locationOf(url)),
      exists: async () => {
        const [row] = await selectRows(url, `SELECT to_regclass('users') AS users`)
        return row?.users !== null
      },
      emails: async () => {
        const rows = await selectRows(url, 'SELECT email FROM users ORDER BY id')
        return rows.map(({ email }) => String(email))
      },
      execute: sql => executeSql(url, sql),
    }
  },
})

async function openNew(options: Partial<OpenStorageOptions> = {}) {
  const databaseUrl = await copyPostgresTemplate()
  return { databaseUrl, storage: await openStorage(databaseUrl, options) }
}

describeStorageReport({ name: 'PostgreSQL', open: openNew })

const newUser = (email: string) => ({ name: 'Ann', email, passwordDigest: null })

test('a write whose connection was lost in COMMIT is repeated, and counted once', async () => {
  const commits: Commit[] = []
  const onCommit = (commit: Commit) => void commits.push(commit)
  const { databaseUrl, storage } = await openNew({ onCommit })
  // A sequence is not rolled back.
  await executeSql(
    databaseUrl,
    `CREATE SEQUENCE commits;
     CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF nextval('commits') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END IF;
       RETURN NULL;
     END $$;
     CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON users
       DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose()`,
  )
  await storage.users.create(newUser('ann@example.com'))
  const rows = await selectRows(databaseUrl, 'SELECT last_value FROM commits')
  expect(rows).toEqual([{ last_value: 3 }])
  expect(commits).toMatchObject([{ writes: 1 }])
})

test('an error of the server quotes no row', async () => {
  const { databaseUrl, storage } = await openNew()
  const check = `CHECK (email NOT LIKE 'marker%')`
  await executeSql(databaseUrl, `ALTER TABLE users ADD CONSTRAINT other ${check}`)
  const user = { name: 'Marker', email: 'marker@example.com', passwordDigest: '$marker' }
  const error = await storage.users.create(user).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: '23514', constraint: 'other' })
  expect(inspect(error)).not.toMatch(/marker/i)
})
