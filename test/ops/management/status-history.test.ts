import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { ServiceStatus } from '../../../src/ops/management/service-status.ts'
import type { HistorySample } from '../../../src/ops/management/status-history.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { openLimitedApp } from '../../support/limited-app.ts'
import { beginPost, CLOSING } from '../../support/raw-http.ts'
import { until } from '../../support/until.ts'

const MINUTE_MS = 60_000

/** A service whose clocks stand still, which samples what it does when the test moves them. */
async function openSampled(limits: object = {}) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const wall = createFakeClock()
  const app = await openLimitedApp(limits, {
    ...{ now: wall.now, monotonicNow: () => performance.now() },
    env: { MANAGEMENT_PORT: '0' },
  })
  const samples = async (query = ''): Promise<readonly HistorySample[]> => {
    const answer = await fetch(`${app.managementUrl}/status${query}`)
    const { history } = (await answer.json()) as ServiceStatus
    expect(history.every_seconds).toBe(2)
    return history.samples
  }
  const pass = (ms: number) => {
    wall.advance(ms)
    vi.advanceTimersByTime(ms)
  }

  /** Lets time pass, and returns the sample that the service takes then. */
  async function sample(ms = 2000): Promise<HistorySample> {
    pass(ms)
    const at = new Date(wall.now()).toISOString()
    const since = new Date(wall.now() - 1).toISOString()
    return until(async () => (await samples(`?since=${since}`)).find(found => found.at === at))
  }

  expect(await samples()).toEqual([])
  return { ...app, wall, samples, pass, sample }
}

test('GET /status has a sample of every two seconds with what has happened in them, and no wait for changes among its durations', async () => {
  const { http, port, wall, linesOf, pass, sample } = await openSampled()
  const cpuUsage = vi.spyOn(process, 'cpuUsage')
  onTestFinished(() => cpuUsage.mockRestore())
  cpuUsage.mockReturnValue({ user: 5e6, system: 1e6 })
  const { finish, ended } = await beginPost(port, CLOSING)
  pass(6000)
  finish()
  await ended
  expect(await sample()).toMatchObject({ by_status: { '2xx': 1 }, p50_ms: 7500, p99_ms: 9950 })
  await http.get('/users/changes?wait=1').expect(200)
  const { body } = await http.get('/users/changes').expect(200)
  const waiting = http.get(`/users/changes?wait=60&after=${body.next}`)
  const waited = waiting.then(({ status }) => status)
  await http.get('/users/1').expect(200)
  await http.get('/users/1').set('If-None-Match', '*').expect(304)
  await http.get('/nowhere').expect(404)
  pass(1000)
  await http.delete('/users/1').expect(204)
  expect(await waited).toBe(200)
  cpuUsage.mockReturnValue({ user: 6e6, system: 2e6 })
  const lost = await beginPost(port)
  lost.socket.resetAndDestroy()
  await until(() => linesOf('request').some(({ aborted }) => aborted))
  const by_status = { '2xx': 5, '3xx': 1, '4xx': 1, '5xx': 0, aborted: 1 }
  expect(await sample(1000)).toEqual({
    ...{ at: new Date(wall.now()).toISOString(), seconds: 2, by_status },
    // Of the new requests only: the old one took six seconds.
    ...{ p50_ms: 0.05, p90_ms: 0.09, p99_ms: 0.099 },
    ...{ shed: 0, refused: 0, would_refuse: 0, cpu: 1 },
    queues: { requests: 0, writes: 0, passwords: 0 },
  })
  expect(await sample()).toMatchObject({ p50_ms: null, by_status: { '2xx': 0 } })
})

test('a late sample, and one after a service that could not report, are about a longer time', async () => {
  const { http, pass, samples, sample } = await openSampled()
  const askTimes = async (count: number) => {
    for (let asked = 0; asked < count; asked++) await http.get('/users')
  }
  await askTimes(10)
  await sample()
  await askTimes(3)
  await sample(8500)
  const failing = vi.spyOn(process, 'cpuUsage').mockImplementation(() => {
    throw new Error('no answer')
  })
  pass(2000)
  await until(() => failing.mock.results.length > 0)
  failing.mockRestore()
  await askTimes(12)
  await sample()
  const seen = (await samples()).map(({ seconds, by_status }) => [seconds, by_status['2xx']])
  expect(seen).toEqual([
    [2, 10],
    [8.5, 3],
    [4, 12],
  ])
})

test('after the clock was set back the times still grow, and no rate changes', async () => {
  const { http, wall, samples, sample } = await openSampled()
  for (let count = 0; count < 3; count++) await sample()
  wall.advance(-5000)
  await http.get('/users')
  expect(await sample()).toMatchObject({ seconds: 2, by_status: { '2xx': 1 } })
  const times = (await samples()).map(({ at }) => at)
  expect(times).toEqual([...new Set(times)].toSorted())
  expect(times).toHaveLength(2)
})

test('the decisions of all rules count, also while a reload removes a rule or begins one again', async () => {
  const rule = { limit: 1, period: '1 hour' }
  const [a, b] = ['a', 'b'].map(name => ({ name, path: `/${name}`, ...rule }))
  const tried = { ...b, name: 'tried', dryRun: true }
  const { change, statuses, sample } = await openSampled({ throttle: [a, b, tried] })
  await statuses(5, 'GET /a')
  await statuses(3, 'GET /b')
  expect(await sample()).toMatchObject({ refused: 6, would_refuse: 0 })
  await change({ throttle: [b, { ...tried, path: '/c' }] })
  await statuses(2, 'GET /b')
  await statuses(3, 'GET /c')
  expect(await sample()).toMatchObject({ refused: 2, would_refuse: 3 })
  await change({ throttle: [a], blocklist: [{ name: 'b', path: '/b' }] })
  await statuses(2, 'GET /a')
  await statuses(1, 'GET /b')
  expect(await sample()).toMatchObject({ refused: 3, would_refuse: 0 })
})

test('15 minutes are kept, and since gives only what is newer', async () => {
  const { samples, sample, pass } = await openSampled()
  for (let count = 0; count < 460; count++) {
    pass(2000)
    // A sample takes a turn of the event loop.
    await nextTurn()
    await nextTurn()
  }
  await sample()
  const all = await samples()
  expect(all).toHaveLength(450)
  const since = (index: number) => samples(`?since=${all.at(index)?.at}`)
  expect(await since(446)).toEqual(all.slice(447))
  expect(await since(-1)).toEqual([])
  expect(await samples('?since=2999-01-01T00:00:00%2B01:00')).toEqual([])
})

test('after a suspend of the machine the samples of before it are gone', async () => {
  const { http, wall, samples, sample } = await openSampled()
  for (let count = 0; count < 2; count++) await sample()
  wall.advance(14 * MINUTE_MS)
  expect(await samples()).toHaveLength(2)
  wall.advance(MINUTE_MS)
  expect(await samples()).toEqual([])
  await http.get('/users')
  expect(await sample()).toMatchObject({ seconds: 2, by_status: { '2xx': 1 } })
  expect(await samples()).toHaveLength(1)
})
