import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnTeam } from '../support/spawn-team.ts'

const WORKERS = 4

const CONNECTIONS_EACH = 100

async function openWith(limits: object) {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(limits))
  const team = await spawnTeam(WORKERS, { cwd, env: { LIMITS_FILE: 'limits.json' } })
  const clients = []
  for (let worker = 1; worker <= WORKERS; worker++) {
    clients.push(...(await team.connectTo(worker, CONNECTIONS_EACH)))
  }
  return { team, clients }
}

test.each([
  { rule: 'a rate limit', limits: { rateLimits: [{ to: 100, within: '1 hour' }] }, over: 429 },
  { rule: 'a throttle', limits: { throttle: [{ limit: 100, period: '1 hour' }] }, over: 429 },
  {
    rule: 'a ban rule',
    limits: { bans: [{ maxretry: 100, findtime: '1 hour', bantime: '1 hour' }] },
    over: 403,
  },
])(
  'of 400 requests at once over four workers, $rule lets exactly 100 pass',
  async ({ limits, over }) => {
    const { clients } = await openWith(limits)
    const answers = await Promise.all(
      clients.map(client => client.ask({ method: 'GET', path: '/users' })),
    )
    const counts = new Map<number | undefined, number>()
    for (const answer of answers) {
      counts.set(answer?.status, (counts.get(answer?.status) ?? 0) + 1)
    }
    expect(Object.fromEntries(counts)).toEqual({ 200: 100, [over]: 300 })
  },
)
