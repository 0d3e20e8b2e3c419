import { expect, test } from 'vitest'
import { inForm, report } from '../support/faults.ts'
import { createUser, fillDatabase } from '../support/fill-users.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { UNHURRIED } from '../support/unhurried.ts'
import { until } from '../support/until.ts'
import { type CrowdOptions, crowd, keepAsking } from './crowd.ts'

/** Every request that waits at all is rejected, however fast the machine is. */
const IMPATIENT = { MAX_EVENT_LOOP_DELAY: '1ms' }

const FEW_PASSWORDS = { ...UNHURRIED, MAX_WAITING_PASSWORDS: '20' }

async function openFilled(env: Readonly<Record<string, string>>) {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, 1000, 'x'.repeat(100))
  return spawnService({ cwd, env, keepsLog: false })
}

interface Overload extends Pick<CrowdOptions, 'workload' | 'clients'> {
  /** The statuses that the crowd waits for. It must get no other ones. */
  readonly crowded: readonly number[]
  /** The statuses that another client may get meanwhile. */
  readonly newcomer: readonly number[]
  readonly env: Readonly<Record<string, string>>
}

const [SHED, SERVED] = [
  [200, 503],
  [200, 201, 404],
]

test.each<Overload>([
  { workload: 'list', clients: 1000, crowded: SHED, newcomer: SHED, env: IMPATIENT },
  { workload: 'password', clients: 100, crowded: [201, 503], newcomer: [200], env: FEW_PASSWORDS },
  { workload: 'mixed', clients: 400, crowded: SERVED, newcomer: [200], env: UNHURRIED },
])(
  '$clients clients at once ($workload): the service keeps answering, to others too, and recovers',
  async options => {
    const { crowded, newcomer, env } = options
    const { port, url } = await openFilled(env)
    const [livez, others] = [keepAsking(`${url}/livez`), keepAsking(`${url}/users/1`)]
    const least = inForm({ short: 1, long: 3000 })
    const isOver: CrowdOptions['isOver'] = statuses =>
      crowded.every(status => (statuses[status] ?? 0) >= least)
    const statuses = await crowd({ ...options, port, isOver })
    expect(Object.keys(statuses).map(Number)).toEqual(crowded)
    expect(await livez()).toEqual([200])
    expect(newcomer).toEqual(expect.arrayContaining(await others()))
    await until(async () => (await fetch(`${url}/users/1`)).status === 200)
    report(`overload: ${options.workload} by ${options.clients}`, statuses)
  },
)

test('200 creates with passwords at once all succeed, while reads continue', async () => {
  const { url } = await openFilled(UNHURRIED)
  const reads = keepAsking(`${url}/users/1`)
  const responses = await Promise.all(
    Array.from({ length: 200 }, () => createUser(url, { password: 'correct horse' })),
  )
  expect(responses.map(({ status }) => status)).toEqual(Array(200).fill(201))
  expect(await reads()).toEqual([200])
})

test('a 503 for overload has the format of all errors, and Retry-After', async () => {
  const env = { ...UNHURRIED, MAX_WAITING_PASSWORDS: '1' }
  const { url } = await spawnService({ cwd: temporaryFolder(), env })
  // The requests may arrive so far apart that none of them waits.
  const refused = await until(async () => {
    const responses = await Promise.all(
      Array.from({ length: 20 }, () => createUser(url, { password: 'correct horse' })),
    )
    return responses.find(({ status }) => status === 503)
  })
  expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  expect(refused.headers.get('x-request-id')).toMatch(/^[\w.-]{1,128}$/)
  expect(await refused.json()).toEqual({
    ...{ message: expect.any(String), resource: 'User', code: 503, status: false },
    reason: 'overloaded',
  })
})
