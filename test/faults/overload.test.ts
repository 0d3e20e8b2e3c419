import { expect, test } from 'vitest'
import { makeDatabaseIn } from '../support/databases.ts'
import { inForm, report } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService, UNHURRIED } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'
import { type CrowdOptions, crowd, keepAsking } from './crowd.ts'

/** Every request that waits at all is rejected, however fast the machine is. */
const IMPATIENT = { MAX_EVENT_LOOP_DELAY: '1ms' }

const FEW_PASSWORDS = { ...UNHURRIED, MAX_WAITING_PASSWORDS: '100' }

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
  { workload: 'password', clients: 200, crowded: [201, 503], newcomer: [200], env: FEW_PASSWORDS },
  { workload: 'mixed', clients: 400, crowded: SERVED, newcomer: [200], env: UNHURRIED },
])(
  '$clients clients at once ($workload): the service keeps answering, to others too, and recovers',
  async options => {
    const { crowded, newcomer, env } = options
    const cwd = temporaryFolder()
    makeDatabaseIn(cwd, { users: 1000, name: 'x'.repeat(100) })
    const { port, url } = await spawnService({ cwd, env, keepsLog: false })
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
