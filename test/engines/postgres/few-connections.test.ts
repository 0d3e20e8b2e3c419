import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openManagedApp } from '../../support/management-requests.ts'
import { startPgBouncer } from '../../support/pgbouncer.ts'
import { asServingRole, connectTo, tasksOn } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  newPostgresDatabase,
  queryPostgres,
} from '../../support/postgres-databases.ts'
import { canUsePgBouncer } from '../../support/programs.ts'
import { startSilencingProxy } from '../../support/silencing-proxy.ts'
import { until, untilPasses } from '../../support/until.ts'

type App = Awaited<ReturnType<typeof openManagedApp>>

const TOO_FEW = 'database gives too few connections'

const PATHS = ['/users/1', '/users?sort=name', '/users?page=2000', '/users?count=true&name=ann']

/**
 * Requests of every kind at once, as many as want all connections that a process uses. Each must be done; again if the machine was
 * too busy for their patience.
 */
function expectAllServed(app: App): Promise<void> {
  return untilPasses(() => expectRoundServed(app))
}

async function expectRoundServed({ http, url }: App): Promise<void> {
  const headers = { Accept: 'application/x-ndjson' }
  const round = Array.from({ length: 4 }, (_, index) => [
    ...PATHS.map(path => http.get(`${path}${path.includes('?') ? `&per_page=${index + 1}` : ''}`)),
    http.post('/users').send(newUserBody()),
    http.put('/users/1').send({ user: { name: `Ann ${index}` } }),
  ]).flat()
  const answers = await Promise.all(round)
  const whole = await (await fetch(`${url}/users`, { headers })).text()
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 201]))
  expect(whole).toContain('Ann')
}

const openOn = (DATABASE_URL: string) =>
  openManagedApp({ env: { DATABASE_URL, MAX_WAITING_REQUESTS: '1000' } })

async function shortageOf({ ops }: App): Promise<unknown> {
  return (await ops.get('/readyz?verbose=true').expect(200)).body.checks.connections
}

test.each([10, 3, 1])('a role limited to %i connections serves everything', async limit => {
  const owners = await newPostgresDatabase()
  const url = await asServingRole(owners)
  await tasksOn(owners).migrate()
  await queryPostgres(owners, `ALTER ROLE ${new URL(url).username} CONNECTION LIMIT ${limit}`)
  const app = await openOn(url)
  await app.http.post('/users').send(newUserBody()).expect(201)
  for (let round = 0; round < 3; round++) await expectAllServed(app)
  if (limit === 10) return
  await untilPasses(async () => {
    await expectAllServed(app)
    expect(await shortageOf(app)).toMatchObject({ status: 'short', open: limit })
  })
  expect(app.logLines.map(({ msg }) => msg)).toContain(TOO_FEW)
  // Once the server gives more, the shortage is over.
  await queryPostgres(owners, `ALTER ROLE ${new URL(url).username} CONNECTION LIMIT -1`)
  await untilPasses(async () => {
    await expectAllServed(app)
    expect(await shortageOf(app)).toBe(undefined)
  })
})

test.skipIf(!canUsePgBouncer).each([20, 10])(
  'two services share a pool of %i of PgBouncer in session pooling mode',
  async size => {
    const url = await startPgBouncer(await copyPostgresTemplate(), { mode: 'session', size })
    const apps = [await openOn(url), await openOn(url)]
    await apps[0]?.http.post('/users').send(newUserBody()).expect(201)
    for (let round = 0; round < 3; round++) await Promise.all(apps.map(expectAllServed))
    for (const app of apps) await expectAllServed(app)
    if (size === 20) return
    // A pooler refuses no connection, so that one that is not given in time tells.
    await untilPasses(async () => {
      await Promise.all(apps.map(expectAllServed))
      const shortages = await Promise.all(apps.map(shortageOf))
      expect(shortages).toContainEqual(expect.objectContaining({ status: 'short' }))
    })
  },
)

test.skipIf(!canUsePgBouncer)(
  'a service gets connections of a session pool that another one keeps busy',
  async () => {
    const url = await startPgBouncer(await copyPostgresTemplate(), { mode: 'session', size: 4 })
    const busy = await openOn(url)
    await busy.http.post('/users').send(newUserBody()).expect(201)
    let isOver = false
    const statuses = new Set<number>()
    const clients = Array.from({ length: 12 }, async (_, index) => {
      while (!isOver) statuses.add((await busy.http.get(PATHS[index % 4] ?? '')).status)
    })
    await untilPasses(async () => expect(await shortageOf(busy)).toMatchObject({ status: 'short' }))
    // Soon, but again if the machine was busy.
    const other = await until(async () => {
      const startedAt = performance.now()
      const opened = await openOn(url)
      if (performance.now() - startedAt < 3000) return opened
      await opened.stop()
      return undefined
    })
    for (let round = 0; round < 20; round++) await other.http.get('/users/1').expect(200)
    isOver = true
    await Promise.all(clients)
    expect(statuses).toEqual(new Set([200]))
  },
)

test.each([
  ['is slow', 1300],
  ['is refused', Number.POSITIVE_INFINITY],
])('a connection that %s harms nothing that runs on another', async (_, openAfterMs) => {
  // Again if the machine was too busy for a nap to end before the connection is there.
  const { proxy, warnings, connections, nap, long } = await until(async () => {
    const proxy = await startSilencingProxy(await newPostgresDatabase())
    const warnings: string[] = []
    const connections = connectTo(proxy.url, { onWarning: warning => void warnings.push(warning) })
    const nap = (seconds: number, share: 'short' | 'list' | 'long' = 'short') =>
      connections.query(`SELECT pg_sleep(${seconds})`, [], share)
    await Promise.all([nap(0.5), nap(0.5)])
    proxy.openAfter(openAfterMs)
    const long = nap(3, 'long')
    await Promise.all([nap(0.01), nap(0.01)])
    const startedAt = performance.now()
    await nap(0.01)
    const isQuick = performance.now() - startedAt < 500
    if (!isQuick) await long
    return isQuick && { proxy, warnings, connections, nap, long }
  })
  const naps = Array.from({ length: 10 }, () => [nap(0.01), nap(0.01, 'list')]).flat()
  expect(await Promise.all(naps)).toHaveLength(20)
  expect(await long).toHaveLength(1)
  await until(() => warnings.length > 0)
  expect(warnings).toEqual([TOO_FEW])
  // Once they can be opened, more are, also while all that are open are always in use.
  proxy.openAfter(0)
  let isOver = false
  const busy = Array.from({ length: 12 }, async () => {
    while (!isOver) await nap(0.01)
  })
  await until(() => connections.report().connections.short === undefined)
  isOver = true
  await Promise.all(busy)
})

test('a connection that goes silent while it is opened is told without the password', async () => {
  const proxy = await startSilencingProxy(await copyPostgresTemplate())
  const url = new URL(proxy.url)
  url.password = 's3cret'
  const { http, logLines } = await openOn(url.href)
  await http.get('/users').expect(200)
  proxy.silence('pg_backend_pid', Number.POSITIVE_INFINITY)
  const shortage = () => logLines.find(({ msg }) => msg === TOO_FEW)
  // Twelve that are quick enough are served by what is open already.
  await untilPasses(async () => {
    await Promise.all(Array.from({ length: 12 }, (_, n) => http.get(`/users?per_page=${n + 1}`)))
    expect(shortage()).toBeDefined()
  })
  expect(JSON.stringify(shortage())).not.toContain('s3cret')
})
