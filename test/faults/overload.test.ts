import { expect, test } from 'vitest'
import { inForm, isLong, report } from '../support/faults.ts'
import { createUser, fillDatabase } from '../support/fill-users.ts'
import { goodput, type LoadOptions, load } from '../support/load.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { startProbe } from '../support/probe-latency.ts'
import { residentMb } from '../support/process-memory.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { UNHURRIED } from '../support/unhurried.ts'

const LONG_SECONDS = 10

const USERS = 1000

async function openFilled(env: Readonly<Record<string, string>> = {}): Promise<SpawnedService> {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, USERS, 'x'.repeat(100))
  return spawnService({ cwd, env, keepsLog: false })
}

/** Milliseconds until three responses in a row succeed, in the long form each within 20 ms. */
async function recoveryMs({ url }: SpawnedService): Promise<number> {
  const startedAt = performance.now()
  for (let quick = 0; quick < 3; ) {
    const askedAt = performance.now()
    const { status } = await fetch(`${url}/users/1`)
    const isQuick = !isLong || performance.now() - askedAt < 20
    quick = status === 200 && isQuick ? quick + 1 : 0
  }
  return Math.round(performance.now() - startedAt)
}

/** For the long form: the defaults of the service. */
const USUAL = { MAX_EVENT_LOOP_DELAY: '500ms' }

/** For the short form: every request that waits at all is rejected, however fast the machine is. */
const IMPATIENT = { MAX_EVENT_LOOP_DELAY: '1ms' }

interface Overload {
  readonly workload: LoadOptions['workload']
  readonly usual: number
  readonly many: number
  /** The statuses that the crowd of the short form waits for. It must get no other ones. */
  readonly until: readonly number[]
  /** The statuses that another client may get meanwhile in the short form. */
  readonly newcomer: readonly number[]
  readonly env: Readonly<Record<string, string>>
}

test.each<Overload>([
  {
    workload: 'list',
    usual: 10,
    many: 1000,
    until: [200, 503],
    newcomer: [200, 503],
    env: IMPATIENT,
  },
  {
    workload: 'password',
    usual: 20,
    many: inForm({ short: 100, long: 600 }),
    until: [201, 503],
    newcomer: [200],
    env: { ...UNHURRIED, MAX_WAITING_PASSWORDS: '20' },
  },
  {
    workload: 'mixed',
    usual: 50,
    many: inForm({ short: 400, long: 2000 }),
    until: [200, 201, 404],
    newcomer: [200],
    env: UNHURRIED,
  },
  {
    workload: 'read',
    usual: 50,
    many: inForm({ short: 400, long: 2000 }),
    until: [200],
    newcomer: [200],
    env: UNHURRIED,
  },
])('the service keeps answering under $workload by $many clients at once', async options => {
  const { workload, usual, many, until, env } = options
  const service = await openFilled(isLong ? USUAL : env)
  const { port, url } = service
  const alone =
    isLong && (await load({ port, workload, connections: usual, seconds: LONG_SECONDS }))

  const alive = startProbe(`${url}/livez`, { pauseMs: 20 })
  const newcomers = startProbe(`${url}/users/1`, { pauseMs: 50, keepAlive: false })
  const end = isLong ? { seconds: LONG_SECONDS } : { until }
  const crowd = await load({ port, workload, connections: many, ...end, run: 'crowd' })
  const [livez, newcomer] = [await alive.stop(), await newcomers.stop()]
  const recoveredInMs = await recoveryMs(service)

  const orRefused = isLong ? [503] : []
  expectOnly(livez, [200])
  expectOnly(newcomer, [...options.newcomer, ...orRefused])
  expectOnly(crowd, [...until, ...orRefused])
  for (const status of until) expect(crowd.statuses[status], `${status}`).toBeGreaterThan(0)
  if (!alone) return
  const [before, during] = [goodput(alone), goodput(crowd)]
  const share = Math.round((during / before) * 100) / 100
  report(`overload: ${workload} by ${many}`, {
    answersASecond: { [`by ${usual}`]: before, [`by ${many}`]: during, share },
    refused: crowd.statuses[503] ?? 0,
    livez,
    newcomer,
    recoveredInMs,
    peakMb: residentMb(service.process.pid, 'VmHWM'),
  })
})

function expectOnly(
  { statuses }: { statuses: Readonly<Record<string, number>> },
  allowed: readonly number[],
): void {
  const others = Object.entries(statuses).filter(([status]) => !allowed.includes(Number(status)))
  expect(others).toEqual([])
}

test('200 creates with passwords at once all succeed, while reads continue', async () => {
  const service = await openFilled(UNHURRIED)
  const before = residentMb(service.process.pid)
  const reads = startProbe(`${service.url}/users/1`)
  await reads.started
  const startedAt = performance.now()
  const responses = await Promise.all(
    Array.from({ length: 200 }, () => createUser(service.url, { password: 'correct horse' })),
  )
  const seconds = Math.round(performance.now() - startedAt) / 1000
  const meanwhile = await reads.stop()
  expect(responses.map(({ status }) => status)).toEqual(Array(200).fill(201))
  expect(Object.keys(meanwhile.statuses)).toEqual(['200'])
  const grownMb = residentMb(service.process.pid, 'VmHWM') - before
  report('200 passwords at once', { seconds, grownMb, reads: meanwhile })
})

test('a 503 for overload has the format of all errors, and Retry-After', async () => {
  const env = { ...UNHURRIED, MAX_WAITING_PASSWORDS: '1' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  let refused: Response[] = []
  // The requests may arrive so far apart that none of them waits.
  while (refused.length === 0) {
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        createUser(service.url, { email: `${index}@example.com`, password: 'correct horse' }),
      ),
    )
    refused = responses.filter(({ status }) => status === 503)
  }
  for (const response of refused) {
    expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
    expect(response.headers.get('x-request-id')).toMatch(/^[\w.-]{1,128}$/)
    expect(await response.json()).toEqual({
      message: expect.any(String),
      resource: 'User',
      code: 503,
      status: false,
      reason: 'overloaded',
    })
  }
})
