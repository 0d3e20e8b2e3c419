import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { createRandom, inForm, isLong, report } from '../support/faults.ts'
import { load } from '../support/load.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { startProbe } from '../support/probe-latency.ts'
import { run, type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'
import { makeDatabase } from './databases.ts'
import { DATABASE } from './killed-service.ts'
import { createWriter } from './write-load.ts'
import { findUsers, type WrittenUser } from './written-users.ts'

const WRITERS = inForm({ short: 8, long: 32 })

/** In the file from the start, so that the copy takes long enough. */
const FILLED_USERS = inForm({ short: 40_000, long: 1_000_000 })

const ROUNDS = inForm({ short: 1, long: 5 })

test('a backup under write load ends, and has all writes acknowledged before it began, and no partial user', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const cwd = temporaryFolder()
    makeDatabase(join(cwd, DATABASE), { users: FILLED_USERS })
    const service = await spawnService({ cwd, keepsLog: false })
    const writers = createWriters()
    const writing = writers.map(writer => writer.write(service.port))
    await until(() => writers.every(({ acknowledged }) => acknowledged > 10))
    const before = process.hrtime.bigint()
    const { code, stderr } = await run({ cwd, args: ['backup', 'copy.db'] })
    expect([code, stderr.replaceAll(/^.*(?:MB|index).*\n/gm, '')]).toEqual([0, ''])
    await stop(service)
    await Promise.all(writing)

    const elsewhere = temporaryFolder()
    const restored = await run({ cwd: elsewhere, args: ['restore', join(cwd, 'copy.db')] })
    expect(restored.code).toBe(0)
    expect((await run({ cwd: elsewhere, args: ['check'] })).stdout).toContain('sound')
    const database = new Database(join(elsewhere, DATABASE), { readonly: true })
    const users = writers.flatMap(({ users }) => users)
    const { problems } = findUsers(database, users, { before, afterId: FILLED_USERS })
    database.close()
    // A restored list has a later revision than any that a client got.
    expect(problems.filter(problem => !problem.startsWith('users_summary'))).toEqual([])
    report('a backup under write load', { users: users.length })
    const again = await spawnService({ cwd: elsewhere })
    await stop(again)
  }
})

function createWriters() {
  const random = createRandom()
  const owners = new Map<number, WrittenUser>()
  return Array.from({ length: WRITERS }, (_, client) =>
    createWriter({ label: `client${client}`, random, owners }),
  )
}

async function stop(service: SpawnedService): Promise<void> {
  service.process.kill('SIGTERM')
  await service.exited
}

describe.runIf(isLong)('a backup of a million users', () => {
  test.each([{ loaded: false }, { loaded: true }])('under load: $loaded', async ({ loaded }) => {
    const cwd = temporaryFolder()
    makeDatabase(join(cwd, DATABASE), { users: 1_000_000 })
    const service = await spawnService({ cwd, keepsLog: false })
    const { port } = service
    const probeUrl = `${service.url}/users/500`
    const loading = loaded
      ? load({ port, connections: 8, seconds: 40, workload: 'mixed' })
      : undefined
    await sleep(2000)
    const quiet = startProbe(probeUrl)
    await sleep(8000)
    const without = await quiet.stop()
    const probe = startProbe(probeUrl)
    const startedAt = performance.now()
    const { code } = await run({ cwd, args: ['backup', 'copy.db'] })
    const seconds = (performance.now() - startedAt) / 1000
    const during = await probe.stop()
    expect(code).toBe(0)
    report(`a backup of a million users, ${loaded ? 'with' : 'without'} load`, {
      seconds,
      megabytes: statSync(join(cwd, 'copy.db')).size / 1e6,
      walMegabytes: statSync(join(cwd, `${DATABASE}-wal`)).size / 1e6,
      without,
      during,
      load: (await loading)?.statuses,
    })
    await stop(service)
  })
})
