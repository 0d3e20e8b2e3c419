import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { inForm, isLong, report } from '../support/faults.ts'
import { createUser, fillDatabase } from '../support/fill-users.ts'
import { goodput, type LoadOptions, load } from '../support/load.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { startProbe } from '../support/probe-latency.ts'
import { residentMb } from '../support/process-memory.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'

const SECONDS = inForm({ short: 0.5, long: 10 })

const USERS = 1000

async function openFilled(env: Readonly<Record<string, string>> = {}): Promise<SpawnedService> {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, USERS, 'x'.repeat(100))
  return spawnService({ cwd, env, keepsLog: false })
}

/** How long after a load the service takes to answer as it did before, three times running. */
async function recoveryMs({ url }: SpawnedService): Promise<number> {
  const startedAt = performance.now()
  for (let quick = 0; quick < 3; ) {
    const askedAt = performance.now()
    const { status } = await fetch(`${url}/users/1`)
    quick = status === 200 && performance.now() - askedAt < 20 ? quick + 1 : 0
    if (!isLong) break
  }
  return Math.round(performance.now() - startedAt)
}

test.each<{
  workload: LoadOptions['workload']
  usual: number
  many: number
  env?: Readonly<Record<string, string>>
  isRefused: boolean
}>([
  { workload: 'list', usual: 10, many: 1000, isRefused: true },
  { workload: 'password', usual: 20, many: 600, isRefused: true },
  { workload: 'mixed', usual: 50, many: 2000, isRefused: false },
  { workload: 'read', usual: 50, many: 2000, isRefused: false },
])('$workload by $many clients at once leaves the service answering', async options => {
  const { workload, usual, isRefused } = options
  const many = inForm({ short: options.many / 5, long: options.many })
  // Fewer clients than in earnest must do to be too many.
  const env = isLong ? {} : { MAX_EVENT_LOOP_DELAY: '50ms', MAX_WAITING_PASSWORDS: '20' }
  const service = await openFilled(env)
  const { port, url } = service
  const alone = await load({ port, workload, connections: usual, seconds: SECONDS, run: 'alone' })

  const alive = startProbe(`${url}/livez`, { pauseMs: 20 })
  const newcomers = startProbe(`${url}/users/1`, { pauseMs: 50, keepAlive: false })
  const crowd = await load({ port, workload, connections: many, seconds: SECONDS, run: 'crowd' })
  const [livez, newcomer] = [await alive.stop(), await newcomers.stop()]
  const recoveredInMs = await recoveryMs(service)

  expect(Object.keys(livez.statuses)).toEqual(['200'])
  expect(newcomer.statuses['200']).toBeGreaterThan(0)
  const { 503: refused = 0, 200: read = 0, 201: created = 0, ...others } = crowd.statuses
  expect(Object.keys(others).filter(status => !['404'].includes(status))).toEqual([])
  expect(read + created).toBeGreaterThan(0)
  if (isRefused) expect(refused).toBeGreaterThan(0)
  const [before, during] = [goodput(alone), goodput(crowd)]
  const share = Math.round((during / before) * 100) / 100
  report(`overload: ${workload} by ${many}`, {
    answersASecond: { [`by ${usual}`]: before, [`by ${many}`]: during, share },
    refused,
    livez,
    newcomer,
    recoveredInMs,
    peakMb: residentMb(service.process.pid, 'VmHWM'),
  })
})

test('200 creates with passwords at once are all done, while reads go on', async () => {
  const service = await openFilled()
  const before = residentMb(service.process.pid)
  const reads = startProbe(`${service.url}/users/1`)
  await sleep(200)
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

test('a refusal for too much tells so in the shape of all others, and when to come back', async () => {
  const env = { MAX_WAITING_PASSWORDS: '1', MAX_EVENT_LOOP_DELAY: '10s' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => createUser(service.url, { password: 'correct horse' })),
  )
  const refused = responses.filter(({ status }) => status === 503)
  expect(refused.length).toBeGreaterThan(0)
  for (const response of refused) {
    expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
    expect(response.headers.get('x-request-id')).toMatch(/^[\w.-]{1,128}$/)
    expect(await response.json()).toEqual({
      message: expect.any(String),
      resource: 'User',
      code: 503,
      status: false,
    })
  }
})
