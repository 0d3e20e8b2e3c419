import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import type { BanRule, LimitsFile } from '../../src/limits/rules/limits-file.ts'
import { openStorageForCommand } from '../../src/wiring/open-storage.ts'
import { byEngine } from '../support/engine.ts'
import type { TestApp } from '../support/open-test-app.ts'
import { openWorkers, type TestWorker, type TestWorkers } from '../support/open-workers.ts'
import { executeSql, selectRows } from '../support/sql.ts'
import { until } from '../support/until.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

const LOGIN: BanRule = {
  name: 'login',
  path: '/login',
  maxretry: 3,
  findtime: '1 minute',
  bantime: '1 hour',
}

interface Pair extends TestWorkers {
  readonly one: TestWorker
  readonly other: TestWorker
}

async function openPair(limits: LimitsFile, env = {}): Promise<Pair> {
  const opened = await openWorkers({ limits, env })
  const [one, other] = opened.workers as [TestWorker, TestWorker]
  return { ...opened, one, other }
}

async function statusOf(app: TestApp, path: string, client = ANN): Promise<number> {
  return (await app.http.get(path).set({ 'X-Forwarded-For': client })).status
}

async function statuses(app: TestApp, count: number, path: string, client?: string) {
  const found = []
  for (let index = 0; index < count; index++) found.push(await statusOf(app, path, client))
  return found
}

function linesOf(lines: readonly Record<string, unknown>[], message: string) {
  return lines.filter(({ msg }) => msg === message)
}

/** The lines of the first process with this message, once there are `count`. */
function untilLines({ firstLines }: TestWorkers, message: string, count: number) {
  return until(() => {
    const lines = linesOf(firstLines, message)
    return lines.length >= count ? lines : undefined
  })
}

/** A client that only commands ban. */
const FOREIGN = '192.0.2.1'

/** What the command `bans add` does. */
async function banByCommand(databaseUrl: string, clientKey: string): Promise<void> {
  const config = loadConfig({ DATABASE_URL: databaseUrl }, '/nowhere/.env')
  const storage = await openStorageForCommand(config, { ifMissing: 'refuse' })
  await storage.bans.save({
    rule: 'login',
    clientKey,
    endsAt: Date.now() + HOUR,
    lastsMs: HOUR,
  })
  await storage.close()
}

async function storedBans(databaseUrl: string): Promise<number> {
  return (await selectRows(databaseUrl, 'SELECT rule FROM bans')).length
}

describe('counts', () => {
  test.each<[string, LimitsFile]>([
    ['a throttle', { throttle: [{ limit: 20, period: '1 hour' }] }],
    ['a route limit', { rateLimits: [{ to: 20, within: '1 hour' }] }],
  ])(
    '%s lets exactly its limit pass, however the workers share the requests',
    async (_kind, limits) => {
      const { workers } = await openWorkers({ limits, count: 3 })
      const found = await Promise.all(
        Array.from({ length: 20 }, () => workers.map(app => statusOf(app, '/users'))).flat(),
      )
      expect(found.filter(status => status === 200)).toHaveLength(20)
      expect(found.filter(status => status === 429)).toHaveLength(40)
    },
  )

  test('a window begins on one worker and ends for all', async () => {
    const { one, other, clock } = await openPair({ throttle: [{ limit: 1, period: '1 minute' }] })
    expect(await statusOf(one, '/users')).toBe(200)
    clock.advance(30 * SECOND)
    const denied = await other.http.get('/users').set({ 'X-Forwarded-For': ANN })
    expect([denied.status, denied.headers['retry-after']]).toEqual([429, '30'])
    clock.advance(30 * SECOND)
    expect(await statusOf(other, '/users')).toBe(200)
    expect(await statusOf(one, '/users')).toBe(429)
  })

  test('with CACHE_STORE=none nothing is counted', async () => {
    const limits = { throttle: [{ limit: 1, period: '1 minute' }] }
    const { one } = await openPair(limits, { CACHE_STORE: 'none' })
    expect(await statuses(one, 3, '/users')).toEqual([200, 200, 200])
  })
})

describe('a ban', () => {
  test('is in force on each worker as soon as the strike that earned it is answered', async () => {
    const { one, other } = await openPair({ bans: [LOGIN] })
    expect(await statusOf(one, '/login')).toBe(404)
    expect(await statusOf(other, '/login')).toBe(404)
    expect(await statusOf(one, '/login')).toBe(404)
    const answer = await other.http.get('/users').set({ 'X-Forwarded-For': ANN })
    expect([answer.status, answer.headers['retry-after']]).toEqual([403, '3600'])
    expect(await statusOf(other, '/users', BOB)).toBe(200)
  })

  test('that answers earned is in force on each worker before the last of them is sent', async () => {
    const rule: BanRule = { ...LOGIN, path: '*', status: [404] }
    const { one, other } = await openPair({ bans: [rule] })
    for (let round = 1; round <= 20; round++) {
      const client = `198.51.100.${round}`
      expect(await statusOf(one, '/login', client)).toBe(404)
      expect(await statusOf(other, '/users', client)).toBe(200)
      expect(await statusOf(other, '/login', client)).toBe(404)
      expect(await statusOf(one, '/login', client)).toBe(404)
      expect(await statusOf(other, '/users', client)).toBe(403)
      expect(await statusOf(one, '/users', client)).toBe(403)
    }
  })

  test('lets exactly maxretry strikes pass when many reach all workers at once', async () => {
    const opened = await openWorkers({ limits: { bans: [LOGIN] }, count: 3 })
    const found = await Promise.all(
      Array.from({ length: 10 }, () => opened.workers.map(app => statusOf(app, '/login'))).flat(),
    )
    expect(found.filter(status => status === 404)).toHaveLength(3)
    expect(found.filter(status => status === 403)).toHaveLength(27)
    await untilLines(opened, 'client banned', 1)
    await until(async () => (await storedBans(opened.databaseUrl)) === 1 || undefined)
    expect(linesOf(opened.firstLines, 'client banned')).toHaveLength(1)
  })

  test('lets a strike pass that was counted before, although its count and the ban come together', async () => {
    const { one, other } = await openPair({ bans: [LOGIN] })
    const { process } = other
    const untilReceived = (text: string) =>
      until(() => process.received.some(message => message.includes(text)))
    process.stop()
    const early = statusOf(other, '/login')
    await untilReceived('["answer"')
    const later = statuses(one, 2, '/login')
    await untilReceived('"ban made"')
    process.goOn()
    expect(await early).toBe(404)
    expect(await later).toEqual([404, 404])
    expect(await statusOf(other, '/login')).toBe(403)
  })

  test('ends on all workers at the same moment, and has cleared the count', async () => {
    const rule = { ...LOGIN, findtime: '1 day', bantime: '1 minute' }
    const { one, other, clock } = await openPair({ bans: [rule] })
    await statuses(one, 3, '/login')
    clock.advance(MINUTE - 1)
    expect([await statusOf(one, '/users'), await statusOf(other, '/users')]).toEqual([403, 403])
    clock.advance(1)
    expect([await statusOf(one, '/users'), await statusOf(other, '/users')]).toEqual([200, 200])
    expect(await statuses(other, 4, '/login')).toEqual([404, 404, 404, 403])
  })

  test('of fail2ban is in force on the other worker too', async () => {
    const { one, other } = await openPair({ bans: [{ ...LOGIN, mode: 'fail2ban' }] })
    expect(await statuses(one, 3, '/login')).toEqual([403, 403, 403])
    expect(await statusOf(other, '/users')).toBe(403)
  })

  test('in dry run is known to the other worker, which does not count on', async () => {
    const opened = await openPair({ bans: [{ ...LOGIN, dryRun: true }] })
    const { one, other } = opened
    expect(await statuses(one, 3, '/login')).toEqual([404, 404, 404])
    expect(await statuses(other, 6, '/login')).toEqual(Array(6).fill(404))
    const lines = await until(() => {
      const found = linesOf(other.logLines, 'request')
      return found.length === 6 ? found : undefined
    })
    expect(lines).toEqual(
      Array(6).fill(expect.objectContaining({ type: 'ban', rule: 'login', dryRun: true })),
    )
    await untilLines(opened, 'client banned', 1)
    expect(linesOf(opened.firstLines, 'client banned')).toHaveLength(1)
  })

  test('is neither reported as foreign nor dropped by the other worker when it reads the database', async () => {
    // Ends at a fraction of a millisecond, which the database rounds up.
    const rule = { ...LOGIN, bantime: 3600.0005 }
    const { one, other, firstLines, databaseUrl } = await openPair({ bans: [rule] })
    await statuses(one, 3, '/login')
    await statuses(one, 3, '/login', BOB)
    await until(async () => (await storedBans(databaseUrl)) === 2 || undefined)
    // A change by another program, which both workers read: then they have read the bans of the first worker too.
    await banByCommand(databaseUrl, FOREIGN)
    await until(async () => (await statusOf(one, '/users', FOREIGN)) === 403 || undefined)
    await until(async () => (await statusOf(other, '/users', FOREIGN)) === 403 || undefined)
    expect([await statusOf(one, '/users'), await statusOf(other, '/users')]).toEqual([403, 403])
    const foreign = linesOf(firstLines, 'client banned by another process')
    expect(foreign.map(({ client }) => client)).toEqual([FOREIGN])
  })

  test('that cannot be saved stays in force everywhere', async () => {
    const { one, other, databaseUrl } = await openPair({ bans: [LOGIN] })
    const tables = byEngine({ sqlite: 'bans', postgres: 'bans, ban_changes' })
    await executeSql(databaseUrl, `DROP TABLE ${tables}`)
    await statuses(one, 3, '/login')
    await until(() => linesOf(one.logLines, 'cannot persist a ban')[0])
    expect([await statusOf(one, '/users'), await statusOf(other, '/users')]).toEqual([403, 403])
  })

  test('that is not saved is known to a worker that starts later', async () => {
    const opened = await openPair({ bans: [LOGIN, { ...LOGIN, name: 'trial', dryRun: true }] })
    await executeSql(opened.databaseUrl, REFUSE_BANS)
    await statuses(opened.one, 3, '/login')
    await until(() => linesOf(opened.one.logLines, 'cannot persist a ban')[0])
    const late = await opened.add()
    expect(await statusOf(late, '/users')).toBe(403)
  })

  test('that a command lifts ends on all workers, and one line says so', async () => {
    const { one, other, firstLines, databaseUrl } = await openPair({ bans: [LOGIN] })
    await statuses(one, 3, '/login')
    await until(async () => (await storedBans(databaseUrl)) === 1 || undefined)
    await executeSql(databaseUrl, 'DELETE FROM bans')
    await until(async () => (await statusOf(one, '/users')) === 200 || undefined)
    await until(async () => (await statusOf(other, '/users')) === 200 || undefined)
    const lines = await until(() => {
      const found = linesOf(firstLines, 'ban lifted by another process')
      return found.length > 0 ? found : undefined
    })
    expect(lines).toEqual([
      expect.objectContaining({ level: 30, type: 'ban', rule: 'login', client: ANN }),
    ])
  })
})

const REFUSE_BANS = byEngine({
  sqlite: `CREATE TRIGGER refuse BEFORE INSERT ON bans BEGIN SELECT RAISE(ABORT, 'refused'); END`,
  postgres: `
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON bans FOR EACH ROW EXECUTE FUNCTION refuse()`,
})

describe('the log', () => {
  test('says once a key and window, for all workers, that a limit is exceeded', async () => {
    const limits = { throttle: [{ name: 'few', limit: 1, period: '1 minute' }] }
    const opened = await openPair(limits)
    const { one, other, firstLines, clock } = opened
    await statuses(one, 3, '/users')
    const [line] = await untilLines(opened, 'limit exceeded', 1)
    expect(line).toMatchObject({ level: 40, worker: 1, type: 'throttle', rule: 'few', client: ANN })
    await statuses(other, 3, '/users')
    await statuses(other, 3, '/users', BOB)
    const lines = await untilLines(opened, 'limit exceeded', 2)
    expect(lines[1]).toMatchObject({ worker: 2, client: BOB })
    clock.advance(MINUTE)
    await statuses(other, 3, '/users')
    await untilLines(opened, 'limit exceeded', 3)
    expect(linesOf(firstLines, 'limit exceeded')).toHaveLength(3)
    expect(linesOf([...one.logLines, ...other.logLines], 'limit exceeded')).toEqual([])
  })

  test('has at most ten lines a second of a rule, for all workers, and the number of those left out', async () => {
    const opened = await openPair({ track: [{ name: 'all' }] })
    const { one, other, firstLines, clock } = opened
    await Promise.all([statuses(one, 30, '/users'), statuses(other, 30, '/users')])
    const lines = await untilLines(opened, 'request tracked', 10)
    expect(lines).toHaveLength(10)
    expect(lines[0]).toMatchObject({ level: 30, rule: 'all', client: ANN })
    clock.advance(SECOND)
    await statuses(other, 1, '/users')
    // Of the lines that were under way, some may have been written in the next second.
    await until(() => {
      const written = linesOf(firstLines, 'request tracked')
      const leftOut = written.reduce((sum, line) => sum + Number(line.leftOut ?? 0), 0)
      return written.length + leftOut === 61 || undefined
    })
  })

  test('has the line of each request from the worker that answered it', async () => {
    const { one, other, firstLines } = await openPair({ blocklist: [{ name: 'all' }] })
    await statuses(one, 1, '/users')
    await statuses(other, 1, '/users')
    for (const { logLines } of [one, other]) {
      const line = await until(() => linesOf(logLines, 'request')[0])
      expect(line).toMatchObject({ status: 403, type: 'blocklist', rule: 'all' })
    }
    expect(firstLines).toEqual([])
  })
})

describe('a worker that', () => {
  test('is stopped delays a ban only for a moment, and obeys it when it goes on', async () => {
    const { one, other } = await openPair({ bans: [LOGIN] })
    other.process.stop()
    expect(await statuses(one, 4, '/login')).toEqual([404, 404, 404, 403])
    expect(await statuses(one, 4, '/login', BOB)).toEqual([404, 404, 404, 403])
    other.process.goOn()
    expect([await statusOf(other, '/users'), await statusOf(other, '/users', BOB)]).toEqual([
      403, 403,
    ])
  })

  test('dies while it is told of a ban is not waited for, nor is it told of later ones', async () => {
    const { one, other } = await openPair({ bans: [LOGIN] })
    await statuses(one, 2, '/login')
    other.process.stop()
    const last = statusOf(one, '/login')
    other.kill()
    expect(await last).toBe(404)
    expect(await statuses(one, 4, '/login', BOB)).toEqual([404, 404, 404, 403])
  })

  test('has banned a client and dies leaves the ban in force', async () => {
    const { one, other } = await openPair({ bans: [LOGIN] })
    await statuses(one, 3, '/login')
    one.kill()
    expect(await statusOf(other, '/users')).toBe(403)
  })
})

test('bans, counts and requests go on while the first process is stopped, for each worker', async () => {
  const { one, other, clock } = await openPair({ bans: [LOGIN] })
  one.first.stop()
  expect(await statuses(one, 4, '/login')).toEqual([404, 404, 404, 403])
  expect(await statusOf(other, '/users')).toBe(200)
  one.first.goOn()
  await until(async () => (await statusOf(other, '/users')) === 403 || undefined)
  clock.advance(HOUR)
  expect(await statusOf(one, '/users')).toBe(200)
})
