import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { startOnFailingDisk } from '../support/failing-disk.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canFailDisks } from '../support/programs.ts'

const HOUR = 3600

const DAY = 24 * HOUR

const LIMITS = {
  throttle: [{ name: 'throttle', path: '/throttled', limit: 2, period: '1 hour' }],
  bans: [{ name: 'ban', path: '/banned', maxretry: 2, findtime: '1 hour', bantime: '1 hour' }],
  rateLimits: [{ name: 'rate', to: 2, within: '1 hour', only: ['list'] }],
}

/** A client for each rule, and what it gets before and after. */
const RULES = [
  { line: 'GET /throttled', client: '198.51.100.1', allowed: 404, refused: 429 },
  { line: 'GET /banned', client: '198.51.100.2', allowed: 404, refused: 403 },
  { line: 'GET /users', client: '198.51.100.3', allowed: 200, refused: 429 },
]

test.skipIf(!canFailDisks)(
  'a clock that steps while the service runs: updated_at grows, and no window, ban or key is extended or dropped',
  async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
    const env = { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1' }
    const { disk, service } = await startOnFailingDisk(cwd, env)
    const askAs = (client: string, line: string) =>
      ask(service, line, undefined, { 'X-Forwarded-For': client })
    const newUser = newUserBody()
    const create = () => ask(service, 'POST /users', newUser, { 'Idempotency-Key': 'key' })
    const { body: user } = await create()
    for (const { line, client, allowed } of RULES) {
      for (let count = 0; count < 2; count++) {
        expect([line, (await askAs(client, line)).status]).toEqual([line, allowed])
      }
    }
    const times: string[] = [user.updated_at]
    for (const seconds of [0, -HOUR, DAY + HOUR, -DAY, 0]) {
      disk.shiftClock(seconds)
      for (const name of [`Name ${seconds}`, `Other ${seconds}`]) {
        const { body } = await ask(service, `PUT /users/${user.id}`, { user: { name } })
        times.push(body.updated_at)
      }
      for (const { line, client, refused } of RULES) {
        const { status, headers } = await askAs(client, line)
        expect([seconds, line, status]).toEqual([seconds, line, refused])
        expect(Number(headers.get('Retry-After'))).toBeLessThanOrEqual(HOUR)
        expect(Number(headers.get('Retry-After'))).toBeGreaterThan(HOUR / 2)
      }
      const again = await create()
      expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([201, 'true'])
    }
    expect(times).toEqual([...new Set(times)].sort())
    expect(Date.parse(times.at(-1) ?? '') - Date.now()).toBeGreaterThan(DAY * 1000 - HOUR * 1000)
    expect((await service.end('SIGTERM')).code).toBe(0)
  },
)
