import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { LimitsFile } from '../../src/limits/rules/limits-file.ts'
import { newUserBody } from '../support/builders.ts'
import { startOnFailingDisk, whyNoFailingDisk } from '../support/failing-disk.ts'
import { isLong } from '../support/faults.ts'
import { ask, type JsonAnswer } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { until } from '../support/until.ts'

const reason = whyNoFailingDisk()
if (reason !== undefined) console.log(`test/faults/clock.test.ts is skipped: ${reason}`)

const HOUR_SECONDS = 3600

const DAY_SECONDS = 24 * HOUR_SECONDS

/** How far the service's clock is wrong after each step. */
const STEPS = [0, -HOUR_SECONDS, DAY_SECONDS, -DAY_SECONDS, 0]

const LIMITS: LimitsFile = {
  throttle: [{ name: 'throttle', path: '/throttled', limit: 2, period: '1 hour' }],
  bans: [{ name: 'ban', path: '/banned', maxretry: 2, findtime: '1 hour', bantime: '1 hour' }],
  rateLimits: [{ name: 'rate', to: 2, within: '1 hour', only: ['list'] }],
}

/** A separate client for each rule, and the error that it gets. */
const RULES = [
  { line: 'GET /throttled', client: '198.51.100.1', allowed: 404, refused: 429 },
  { line: 'GET /banned', client: '198.51.100.2', allowed: 404, refused: 403 },
  { line: 'GET /users', client: '198.51.100.3', allowed: 200, refused: 429 },
]

async function start(limits?: LimitsFile) {
  const cwd = temporaryFolder()
  if (limits === undefined) return startOnFailingDisk(cwd)
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(limits))
  return startOnFailingDisk(cwd, { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1' })
}

function retryAfter({ headers }: JsonAnswer): number {
  return Number(headers.get('Retry-After'))
}

describe.skipIf(reason !== undefined)('a clock that steps while the service runs', () => {
  test.runIf(isLong)('is seen by the service', async () => {
    const { disk, service } = await start()
    const dateOf = ({ headers }: JsonAnswer) => Date.parse(headers.get('Date') ?? '')
    const before = dateOf(await ask(service, 'GET /livez'))
    disk.shiftClock(DAY_SECONDS)
    const hasStepped = async () =>
      dateOf(await ask(service, 'GET /livez')) - before >= DAY_SECONDS * 1000
    await until(hasStepped)
  })

  test('makes updated_at grow with every change, and all versions different', async () => {
    const { disk, service } = await start()
    const { body: user } = await ask(service, 'POST /users', newUserBody())
    const times: string[] = [user.updated_at]
    for (const [index, seconds] of STEPS.entries()) {
      disk.shiftClock(seconds)
      for (const name of [`Name ${index}`, `Other ${index}`]) {
        const { body } = await ask(service, `PUT /users/${user.id}`, { user: { name } })
        times.push(body.updated_at)
      }
    }
    expect(times).toEqual([...new Set(times)].sort())
  })

  test('neither extends nor drops a window or a ban', async () => {
    const { disk, service } = await start(LIMITS)
    const askAs = (line: string, client: string) =>
      ask(service, line, undefined, { 'X-Forwarded-For': client })
    for (const { line, client, allowed } of RULES) {
      for (let count = 0; count < 2; count++) {
        expect([line, (await askAs(line, client)).status]).toEqual([line, allowed])
      }
    }
    for (const seconds of STEPS) {
      disk.shiftClock(seconds)
      for (const { line, client, refused } of RULES) {
        const answer = await askAs(line, client)
        expect([seconds, line, answer.status]).toEqual([seconds, line, refused])
        expect(retryAfter(answer)).toBeLessThanOrEqual(HOUR_SECONDS)
        expect(retryAfter(answer)).toBeGreaterThan(HOUR_SECONDS / 2)
        const reset = /t=(\d+)/.exec(answer.headers.get('RateLimit') ?? '')?.[1]
        if (line === 'GET /users') expect(Number(reset)).toBe(retryAfter(answer))
      }
    }
  })

  test.runIf(isLong)('does not stop the service from serving and ending', async () => {
    const { disk, service } = await start()
    for (const seconds of STEPS) {
      disk.shiftClock(seconds)
      expect((await ask(service, 'GET /users')).status).toBe(200)
    }
    disk.shiftClock(-DAY_SECONDS)
    service.process.kill('SIGTERM')
    expect((await service.exited).code).toBe(0)
  })

  test('does not end the 24 hours of an Idempotency-Key earlier', async () => {
    const { disk, service } = await start()
    const key = { 'Idempotency-Key': 'key' }
    const body = newUserBody()
    expect((await ask(service, 'POST /users', body, key)).status).toBe(201)
    disk.shiftClock(DAY_SECONDS + HOUR_SECONDS)
    const again = await ask(service, 'POST /users', body, key)
    expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([201, 'true'])
  })
})
