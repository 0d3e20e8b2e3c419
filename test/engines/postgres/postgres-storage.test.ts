import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import type { Commit } from '../../../src/storage/storage-report.ts'
import { createUser } from '../../support/create-user.ts'
import { openStored } from '../../support/stored.ts'

const newUser = (email: string) => ({ name: 'Ann', email, passwordDigest: null })

test('a write whose connection was lost in COMMIT is repeated, and counted once', async () => {
  const commits: Commit[] = []
  const onCommit = (commit: Commit) => void commits.push(commit)
  const { storage, sql } = await openStored({ onCommit })
  // A sequence is not rolled back.
  await sql(
    `CREATE SEQUENCE commits;
     CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF nextval('commits') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END IF;
       RETURN NULL;
     END $$;
     CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON users
       DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose()`,
  )
  await createUser(storage.users, newUser('ann@example.com'))
  const rows = await sql('SELECT last_value FROM commits')
  expect(rows).toEqual([{ last_value: 3 }])
  expect(commits).toMatchObject([{ writes: 1 }])
})

test('an error of the server quotes no row', async () => {
  const { storage, sql } = await openStored()
  const check = `CHECK (email NOT LIKE 'marker%')`
  await sql(`ALTER TABLE users ADD CONSTRAINT other ${check}`)
  const user = { name: 'Marker', email: 'marker@example.com', passwordDigest: '$marker' }
  const error = await createUser(storage.users, user).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: '23514', constraint: 'other' })
  expect(inspect(error)).not.toMatch(/marker/i)
})
