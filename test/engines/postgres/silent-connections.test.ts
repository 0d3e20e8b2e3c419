import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Connections } from '../../../src/storage/postgres/postgres-connections.ts'
import { createUser } from '../../support/create-user.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { connectTo, holdOpen, openStorage } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  newPostgresDatabase,
  queryPostgres,
} from '../../support/postgres-databases.ts'
import { startSilencingProxy } from '../../support/silencing-proxy.ts'
import { until, untilPasses } from '../../support/until.ts'

const UNAVAILABLE = { code: 'storage_unavailable' }

/** Connections to a database with the table `things`, through a proxy. */
async function openThings(longStatementMs?: number) {
  const databaseUrl = await newPostgresDatabase()
  await queryPostgres(
    databaseUrl,
    'CREATE TABLE things (id integer, name text); INSERT INTO things VALUES (1)',
  )
  const proxy = await startSilencingProxy(databaseUrl)
  const connections = connectTo(proxy.url, longStatementMs ? { longStatementMs } : {})
  return { databaseUrl, proxy, connections }
}

function nameThing({ write }: Pick<Connections, 'write'>, name: string) {
  return write('UPDATE things SET name = $1', [name])
}

test('each kind of work on a silent connection ends, and the connection is replaced', async () => {
  const { proxy, connections } = await openThings(2000)
  const read = (text: string, share: 'short' | 'long') =>
    connections.query(`SELECT '${text}'`, [], share)
  // As many as there are connections of the kind.
  proxy.silence('silence', 9)
  const long = Array.from({ length: 3 }, () => read('silence', 'long'))
  const writes = Array.from({ length: 4 }, () => nameThing(connections, 'silence'))
  const transactions = Array.from({ length: 2 }, () =>
    connections.transaction(session => session.query(`UPDATE things SET name = 'silence'`), {
      share: 'short',
    }),
  )
  const outcomes = await Promise.allSettled([...long, ...transactions, ...writes])
  expect(outcomes.map(one => 'reason' in one && one.reason.code)).toEqual([
    ...Array(5).fill('storage_unavailable'),
    ...Array(4).fill('outcome_unknown'),
  ])
  expect(proxy.silenced()).toBe(9)
  // A caller is answered at its own deadline, its connection ends with its statement.
  await until(() => connections.report().connections.active === 0)
  expect(await read('long', 'long')).toEqual([['long']])
  await nameThing(connections, 'Pen')
})

test('a read on a silent connection does not end long work on another one', async () => {
  const { proxy, connections } = await openThings()
  const read = (text: string, share: 'short' | 'long') => connections.query(text, [], share)
  const slept = read('SELECT pg_sleep(3)', 'long')
  proxy.silence('silence')
  await expect(read(`SELECT 'silence'`, 'short')).rejects.toMatchObject(UNAVAILABLE)
  expect(await slept).toHaveLength(1)
})

test('a stop does not wait for the count of deletions in the feed', async () => {
  const proxy = await startSilencingProxy(await copyPostgresTemplate())
  proxy.silence('SELECT count(*) FROM user_changes')
  const app = await openTestApp({ env: { DATABASE_URL: proxy.url } })
  await until(() => proxy.silenced() === 1)
  // Less than a count may take.
  const longAfter = sleep(15_000, 'waits', { ref: false })
  expect(await Promise.race([app.stop(), longAfter])).toBe(true)
})

test('a process that vanishes in a transaction keeps its rows from nobody for long', async () => {
  const { databaseUrl, proxy, connections } = await openThings()
  proxy.silence('silence')
  const vanished = connections.transaction(
    async session => {
      await session.query('UPDATE things SET name = NULL')
      await session.query(`SELECT 'silence'`)
    },
    { share: 'long' },
  )
  vanished.catch(() => {})
  await until(() => proxy.silenced() === 1)
  await queryPostgres(databaseUrl, `UPDATE things SET name = 'Pen'`)
})

test('close ends what runs on a silent connection', async () => {
  const { proxy, connections } = await openThings(10 * 60_000)
  proxy.silence('silence')
  const read = connections.query(`SELECT 'silence'`, [], 'long')
  const ended = expect(read).rejects.toMatchObject(UNAVAILABLE)
  await until(() => proxy.silenced() === 1)
  await connections.close()
  await ended
})

test('close waits for what is answered', async () => {
  const { connections } = await openThings()
  const slept = connections.query('SELECT pg_sleep(1)')
  await connections.close()
  expect(await slept).toHaveLength(1)
  await expect(connections.query('SELECT 1')).rejects.toMatchObject({ code: 'shutting_down' })
})

test('a change that has waited for a lock does not wait as long again for a server that goes silent then', async () => {
  // Again if the machine was so busy that the waits, which are of the same length, ended in another order.
  await untilPasses(async () => {
    const databaseUrl = await copyPostgresTemplate()
    const proxy = await startSilencingProxy(databaseUrl)
    const { users } = await openStorage(proxy.url)
    const { id } = await createUser(users, { name: 'Ann', email: 'a@x.co', passwordDigest: null })
    await holdOpen(databaseUrl, 'SELECT FROM users FOR UPDATE')
    const ended: string[] = []
    const change = users.update(id, { name: 'Bea' }).catch(({ code }) => ended.push(code))
    await sleep(700)
    for (const statement of ['find_user', 'change_users']) proxy.silence(statement, 4)
    const read = users.find(id).catch(() => ended.push('read'))
    await Promise.all([change, read])
    expect(ended).toEqual(['outcome_unknown', 'read'])
  })
})
