import { existsSync, watch } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { copyDatabase, makeDatabaseIn } from '../support/databases.ts'
import { createRandom, inForm, quantile, report } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, spawnMain, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'
import { type Clients, createClients } from './clients.ts'

const DATABASE = join('data', 'users.db')

const CLIENTS = 32

/** Longer than the time between the first and the last file access of a start. */
const OPENING_MS = 50

const LOADS = inForm({
  short: [{ older: 0, kills: 4 }],
  long: [
    { older: 0, kills: 200 },
    { older: 1_000_000, kills: 10 },
  ],
})

test.each(LOADS)(
  'kill -9 under mixed writes beside $older users loses no acknowledged write and leaves no partial one',
  async ({ older, kills }) => {
    const random = createRandom()
    const cwd = temporaryFolder()
    if (older > 0) makeDatabaseIn(cwd, { users: older })
    const clients = createClients({ clients: CLIENTS, random })
    const restartsMs: number[] = []
    for (let kill = 0; kill <= kills; kill++) {
      const startedAt = performance.now()
      const service = await spawnService({ cwd })
      restartsMs.push(performance.now() - startedAt)
      await expectSound(clients, service, older)
      if (kill < kills) {
        const enough = clients.acknowledged() + CLIENTS + random() * 500
        const writing = clients.write(service.port)
        await until(() => clients.acknowledged() >= enough, 1)
        await Promise.all([writing, service.end('SIGKILL')])
        if (random() < 0.2) await killDuringStart(cwd, random)
      }
    }
    expect(await run({ cwd, args: ['check'] })).toMatchObject({ code: 0 })
    const figures = { kills, medianMs: quantile(restartsMs, 0.5), mostMs: quantile(restartsMs, 1) }
    report(`killed beside ${older} users`, { ...figures, acknowledged: clients.acknowledged() })
  },
)

test.each<[start: string, prepare: (cwd: string, clients: Clients) => Promise<void>]>([
  ['the first start', async () => {}],
  ['a recovery', writeAndKill],
])(
  'kill -9 during %s leaves nothing partial, and the next start finds everything',
  async (_, prepare) => {
    const random = createRandom()
    const prepared = temporaryFolder()
    const clients = createClients({ clients: 1, random })
    await prepare(prepared, clients)
    for (let round = 0; round < inForm({ short: 1, long: 30 }); round++) {
      const cwd = temporaryFolder()
      copyDatabase(join(prepared, DATABASE), join(cwd, DATABASE))
      await killDuringStart(cwd, random)
      const service = await spawnService({ cwd })
      await expectSound(clients, service)
      expect(await run({ cwd, args: ['check'] })).toMatchObject({ code: 0 })
      service.process.kill('SIGKILL')
    }
  },
)

/** All that was acknowledged is there. What was under way is done or not done, and stays so. */
async function expectSound(clients: Clients, service: { url: string; port: number }, older = 0) {
  expect(await clients.compare(service.url, { afterId: older })).toEqual([])
  const count = `${service.url}/users?count=true&per_page=1&created_before=2022-01-01T00:00:00Z`
  expect((await fetch(count)).headers.get('x-total-count')).toBe(`${older}`)
  await clients.settle(service.port)
  expect(clients.problems).toEqual([])
}

/** Leaves a database whose newest users are only in its WAL. */
async function writeAndKill(cwd: string, clients: Clients): Promise<void> {
  const service = await spawnService({ cwd })
  await clients.write(service.port, 60)
  await service.end('SIGKILL')
}

/** Kills a start before, during or after its work on the database. */
async function killDuringStart(cwd: string, random: () => number): Promise<void> {
  const data = join(cwd, 'data')
  const touched = new Promise<void>(resolve => {
    const watcher = watch(existsSync(data) ? data : cwd, () => {
      watcher.close()
      resolve()
    })
  })
  const service = spawnMain({ cwd, env: { PORT: '0' } })
  await Promise.race([touched, service.exited])
  await sleep(random() * OPENING_MS)
  await service.end('SIGKILL')
}
