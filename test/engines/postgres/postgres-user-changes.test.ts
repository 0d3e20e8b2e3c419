import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { SpecialStatement } from '../../../src/storage/postgres/postgres-connections.ts'
import { createPostgresUserChanges } from '../../../src/storage/postgres/postgres-user-changes.ts'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { connectTo, holdOpen, insertUsers } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  newPostgresDatabase,
  queryPostgres,
  withPostgres,
} from '../../support/postgres-databases.ts'
import { findPostgresBinaries } from '../../support/programs.ts'
import { until, untilPasses } from '../../support/until.ts'

function runProgram(name: string, ...args: string[]): void {
  execFileSync(join(findPostgresBinaries() as string, name), args)
}

test('GET /users/changes answers 410 after pg_restore into the same database, emptied', async () => {
  const databaseUrl = await newPostgresDatabase()
  const file = join(temporaryFolder(), 'users.dump')
  const env = { DATABASE_URL: databaseUrl }
  const before = await openTestApp({ env, users: [newUserBody()] })
  const { next: beginning } = await untilChanged(before)
  runProgram('pg_dump', '--format=custom', '--no-owner', `--file=${file}`, databaseUrl)
  await before.http.delete('/users/1').expect(204)
  const { next } = await untilChanged(before, `?after=${beginning}`)
  await queryPostgres(databaseUrl, 'DROP SCHEMA public CASCADE; CREATE SCHEMA public')
  runProgram('pg_restore', '--no-owner', '--exit-on-error', `--dbname=${databaseUrl}`, file)
  const after = await openTestApp({ env })
  const { body } = await after.http.get(`/users/changes?after=${next}`).expect(410)
  expect(body).toMatchObject({ reason: 'cursor_expired' })
  expect((await untilChanged(after)).data).toHaveLength(1)
})

/** The feed once it has a change: not before the writes of other databases of the server have ended. */
function untilChanged({ http }: TestApp, query = '') {
  return untilPasses(async () => {
    const { body } = await http.get(`/users/changes${query}`).expect(200)
    expect(body.data).not.toEqual([])
    return body
  })
}

/** As after a restore into a server whose transactions have smaller numbers. */
const RESTORED = `UPDATE user_changes SET changed_in = changed_in + 1000000000000;
  UPDATE user_feed SET server = 'another/00000001/1/1', forgotten_in = 1000000000000`

test('the feed of a restored database goes on: in the order of changes, with new ones at the end', async () => {
  const url = await copyPostgresTemplate()
  const { read } = createPostgresUserChanges(connectTo(url))
  await queryPostgres(url, insertUsers(1, 3))
  await queryPostgres(url, `UPDATE users SET name = 'Late' WHERE id = 1`)
  const before = await until(async () => {
    const page = await read(undefined, 10)
    return page.changes.at(-1)?.id === 1 && page
  })
  await queryPostgres(url, RESTORED)
  await expect(read(before.next, 10)).rejects.toMatchObject({ code: 'cursor_expired' })
  await queryPostgres(
    url,
    `UPDATE users SET name = 'New' WHERE id = 2; DELETE FROM users WHERE id = 3`,
  )
  const ids = async () => (await read(undefined, 10)).changes.map(({ id }) => id)
  expect(await until(async () => (await ids()).at(-1) === 3 && ids())).toEqual([1, 2, 3])
})

test('a transaction that began before the feed of a restored database is told once it ends', async () => {
  const url = await copyPostgresTemplate()
  const { read } = createPostgresUserChanges(connectTo(url))
  await queryPostgres(url, `${insertUsers(1, 2)} ${RESTORED}`)
  const holder = await holdOpen(url, `UPDATE users SET name = 'Slow' WHERE id = 1`)
  const hidden = await read(undefined, 10)
  expect(hidden).toMatchObject({ changes: [], hasMore: false })
  await queryPostgres(url, `UPDATE users SET name = 'New' WHERE id = 2`)
  await holder.query('COMMIT')
  const { changes } = await until(async () => {
    const page = await read(hidden.next, 10)
    return page.changes.length === 2 && page
  })
  expect(changes.map(({ user }) => JSON.parse(String(user)).name)).toEqual(['Slow', 'New'])
})

test('a page of changes is read by indexes, whatever PostgreSQL knows of its place', async () => {
  const url = await copyPostgresTemplate()
  await queryPostgres(url, `${insertUsers(1, 3000)} ANALYZE`)
  const connections = connectTo(url)
  const texts: string[] = []
  const query: typeof connections.query = (statement, values) => {
    texts.push((statement as SpecialStatement).text)
    return connections.query(statement, values)
  }
  const changes = createPostgresUserChanges({ ...connections, query })
  await changes.read(undefined, 100)
  await changes.last()
  await withPostgres(url, async client => {
    await client.query('SET plan_cache_mode = force_generic_plan')
    for (const [nth, text] of texts.entries()) {
      await client.query(`PREPARE asked_${nth} AS ${text}`)
      const values = text.includes('$1') ? `('0', 0, 101)` : ''
      const { rows } = await client.query(`EXPLAIN EXECUTE asked_${nth} ${values}`)
      const lines = rows.map(row => row['QUERY PLAN']).join('\n')
      expect(lines).toMatch(/Index (?:Only )?Scan (?:Backward )?using user_changes_by_transaction/)
      expect(lines).not.toMatch(/Seq Scan on (?:users|user_changes)\b/)
    }
  })
})
