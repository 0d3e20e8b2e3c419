import { randomBytes, randomUUID } from 'node:crypto'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import type { Commit } from '../../../src/storage/storage.ts'
import { IDEMPOTENCY_TTL_MS } from '../../../src/users/user-repository.ts'
import { createUser } from '../../support/create-user.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { holdOpen, openStorage } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { openStored } from '../../support/stored.ts'
import { until } from '../../support/until.ts'

/** Sessions of others that have tried to change a user. */
const SELECT_ATTEMPTS = `
  SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND query LIKE '%UPDATE users SET name = found.name%'`

test('update takes back an e-mail that another transaction changes meanwhile', async () => {
  const url = await copyPostgresTemplate()
  const { users } = await openStorage(url)
  const email = 'ann@example.com'
  const { id } = await createUser(users, { name: 'Ann', email, passwordDigest: null })
  const other = await holdOpen(url, `UPDATE users SET email = 'other@example.com'`)
  const updated = users.update(id, { name: 'Bea', email })
  await until(async () => (await queryPostgres(url, SELECT_ATTEMPTS)).length > 0)
  await other.query('COMMIT')
  expect(await updated).toMatchObject({ json: expect.stringContaining(`"email":"${email}"`) })
  expect(await queryPostgres(url, 'SELECT name, email FROM users')).toEqual([
    { name: 'Bea', email },
  ])
})

/** What the server has rolled back, once no other session is left to report more. */
const SELECT_ROLLBACKS = `
  SELECT xact_rollback AS rollbacks FROM pg_stat_database WHERE datname = current_database() AND numbackends = 1`

async function countRollbacks(url: string): Promise<unknown> {
  let rows: Record<string, unknown>[] = []
  await until(async () => {
    rows = await queryPostgres(url, SELECT_ROLLBACKS)
    return rows.length > 0
  })
  return rows[0]?.rollbacks
}

test('claims of one free e-mail at the same time violate nothing, so that the log of the server does not quote it', async () => {
  const url = await copyPostgresTemplate()
  const { users, close } = await openStorage(url)
  const named = (name: string) => ({ name, email: `${name}@x.co`, passwordDigest: null })
  const made = await Promise.all(['ann', 'bea', 'cid'].map(name => createUser(users, named(name))))
  const [ann = 0, bea = 0, cid = 0] = made.map(({ id }) => id)
  const claims = await Promise.allSettled([
    users.update(ann, { email: 'Free@x.co' }),
    users.update(bea, { email: 'free@x.co' }),
    createUser(users, { ...named('dan'), email: 'FREE@x.co' }),
    users.update(cid, { name: 'Cid' }),
  ])
  const codes = claims.map(claim => (claim.status === 'rejected' ? claim.reason.code : undefined))
  expect(codes.slice(0, 3).sort()).toEqual(['email_taken', 'email_taken', undefined])
  expect(codes[3]).toBeUndefined()
  await close()
  expect(await countRollbacks(url)).toBe(0)
})

function newUser() {
  return { name: 'Ann', email: `${randomUUID()}@example.com`, passwordDigest: null }
}

test('keys that have expired are claimed again by one statement, which violates nothing', async () => {
  const url = await copyPostgresTemplate()
  const clock = createFakeClock()
  const { users, close } = await openStorage(url, { now: clock.now })
  const claims = Array.from({ length: 9 }, () => ({ keyHash: randomBytes(32), fingerprint: 'f' }))
  await Promise.all(claims.map(claim => createUser(users, newUser(), claim)))
  clock.advance(IDEMPOTENCY_TTL_MS)
  await Promise.all([undefined, ...claims].map(claim => createUser(users, newUser(), claim)))
  const found = await Promise.all(claims.map(({ keyHash }) => users.findIdempotentCreate(keyHash)))
  expect(found).not.toContain(undefined)
  await close()
  expect(await countRollbacks(url)).toBe(0)
})

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
  await createUser(storage.users, newUser())
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
