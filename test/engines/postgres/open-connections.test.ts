import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { ServiceError } from '../../../src/errors.ts'
import { createClientConfigs } from '../../../src/storage/postgres/client-config.ts'
import { openConnection } from '../../../src/storage/postgres/open-connection.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { untilPasses } from '../../support/until.ts'

test.each(['write', 'transaction'] as const)(
  '%s passes an error of the work, whose outcome is known',
  async mode => {
    const connections = connectTo(await newPostgresDatabase())
    const result = connections[mode](async session => {
      await session.query({ text: 'SELECT 1' })
      throw new ServiceError('email_taken')
    })
    await expect(result).rejects.toMatchObject({ code: 'email_taken' })
  },
)

test.each([
  ['array_nulls', 'off', 'on'],
  ['bytea_output', 'escape', 'hex'],
  ['jit', 'on', 'off'],
])('%s=%s of the URL becomes %s', async (setting, given, kept) => {
  const url = new URL(await newPostgresDatabase())
  url.searchParams.set('options', `-c ${setting}=${given}`)
  const connections = connectTo(String(url))
  const rows = await connections.read(session =>
    session.query<[string]>({ text: `SELECT current_setting('${setting}')` }),
  )
  expect(rows).toEqual([[kept]])
})

test('idle connections that are no longer trusted are closed when one of them breaks', async () => {
  const url = await newPostgresDatabase()
  const connections = connectTo(url)
  const allAreThere = meeting(2)
  const pids = await Promise.all(
    Array.from({ length: 2 }, () =>
      connections.read(async session => {
        const [[pid] = [0]] = await session.query<[number]>({ text: 'SELECT pg_backend_pid()' })
        await allAreThere()
        return pid
      }),
    ),
  )
  const refused = connections.transaction(async session => {
    await session.query({ text: 'SET TRANSACTION READ ONLY' })
    await session.query({ text: 'CREATE TABLE refused ()' })
  })
  await expect(refused).rejects.toMatchObject({ code: 'storage_unavailable' })
  const there = `SELECT pid FROM pg_stat_activity WHERE pid IN (${pids}) ORDER BY pid`
  await queryPostgres(url, `SELECT pg_terminate_backend(pid) FROM (${there} LIMIT 1) AS one`)
  await untilPasses(async () => expect(await queryPostgres(url, there)).toEqual([]))
})

test('report has the connections that work, those that are idle, and what waits for one', async () => {
  const connections = connectTo(await newPostgresDatabase())
  const nothing = { active: 0, idle: 0, waiting: 0 }
  expect(connections.report().connections).toEqual(nothing)
  const allWork = meeting(3)
  const isSeen = meeting(3)
  const options = { isPatient: true, deadline: performance.now() + 100_000 }
  const work = async () => {
    await allWork()
    await isSeen()
  }
  const first = [connections.transaction(work, options), connections.transaction(work, options)]
  await allWork()
  const last = connections.transaction(async () => {}, options)
  expect(connections.report().connections).toEqual({ active: 2, idle: 0, waiting: 1 })
  const done = Promise.all([...first, last])
  await isSeen()
  await done
  expect(connections.report().connections).toEqual({ active: 0, idle: 2, waiting: 0 })
  await connections.close()
  expect(connections.report().connections).toEqual(nothing)
})

test('a process that was busy until the deadline still hears the answer of the server', async () => {
  const timeoutMs = 4000
  const location = locationOf(await newPostgresDatabase())
  const [config = {}] = location.hosts.map(createClientConfigs(location))
  const settings = { lockTimeoutMs: 0, statementTimeoutMs: 0, hasGenericPlans: false }
  const opening = openConnection({ config, timeoutMs, settings })
  onTestFinished(async () => (await opening).end())
  await nextTurn()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeoutMs + 100)
  expect((await opening).isBroken).toBe(false)
})

/** Returns a function whose calls end once there are `count` of them. */
function meeting(count: number): () => Promise<void> {
  let open: () => void = () => {}
  let missing = count
  const isOpen = new Promise<void>(resolve => {
    open = resolve
  })
  return () => {
    missing--
    if (missing === 0) open()
    return isOpen
  }
}
