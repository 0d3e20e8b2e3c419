import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { createRandom, inForm, quantile, report } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { copyDatabase, makeDatabase, schemas, usersIn } from './databases.ts'
import { DATABASE, killDuringStart, restart } from './killed-service.ts'
import { createPopulation } from './population.ts'
import { createWriter } from './write-load.ts'
import { findUsers, type WrittenUser } from './written-users.ts'

const LOADS = inForm({
  short: [{ before: 'no users', users: 0, kills: 4, writes: 400 }],
  long: [
    { before: 'no users', users: 0, kills: 200, writes: 100_000 },
    { before: 'a million users', users: 1_000_000, kills: 10, writes: 1000 },
  ],
})

const CLIENTS = 32

const MAX_LIFE_MS = inForm({ short: 200, long: 600 })

const STARTS = inForm({ short: 1, long: 30 })

const MAX_KILLS_A_START = inForm({ short: 1, long: 3 })

const OLDER_USERS = inForm({ short: 2000, long: 20_000 })

test.each(LOADS)(
  'kill -9 under mixed writes after $before loses no acknowledged write and leaves no partial one',
  async load => {
    const random = createRandom()
    const cwd = temporaryFolder()
    if (load.users > 0) makeDatabase(join(cwd, DATABASE), { users: load.users })
    const population = createPopulation({ clients: CLIENTS, afterId: load.users })
    const restartsMs: number[] = []
    let kills = 0
    let killsDuringStart = 0
    while (kills < load.kills || population.acknowledged < load.writes) {
      const { service, ms, problems } = await restart(cwd, population)
      expect(problems).toEqual([])
      if (kills > 0) restartsMs.push(ms)
      const written = population.write(service.port)
      await sleep(30 + random() * MAX_LIFE_MS)
      service.process.kill('SIGKILL')
      kills++
      await Promise.all([written, service.exited])
      if (random() < 0.2) {
        await killDuringStart(cwd, random)
        killsDuringStart++
      }
    }
    const { service, problems } = await restart(cwd, population)
    expect(problems).toEqual([])
    const there = population.users.flatMap(({ versions }) => versions.at(-1)?.body || [])
    expect((await usersOverHttp(service.url, load.users)).sort()).toEqual(there.sort())
    report(`killed under mixed writes after ${load.before}`, {
      kills,
      killsDuringStart,
      acknowledged: population.acknowledged,
      usersLeft: there.length,
      medianRestartMs: Math.round(quantile(restartsMs, 0.5)),
      restartMs99: Math.round(quantile(restartsMs, 0.99)),
      slowestRestartMs: Math.round(Math.max(...restartsMs)),
    })
  },
)

test.each<{ start: string; prepare: (cwd: string) => Promise<readonly WrittenUser[]> }>([
  { start: 'the first start', prepare: async () => [] },
  { start: 'a migration', prepare: async cwd => makeOlderDatabase(join(cwd, DATABASE)) },
  { start: 'a recovery', prepare: writeAndKill },
])(
  'kill -9 during $start leaves nothing partial, and the next start finds everything',
  async begin => {
    const random = createRandom()
    const prepared = temporaryFolder()
    const users = await begin.prepare(prepared)
    let kills = 0
    for (let round = 0; round < STARTS; round++) {
      const cwd = temporaryFolder()
      copyDatabase(join(prepared, DATABASE), join(cwd, DATABASE))
      for (let left = Math.ceil(random() * MAX_KILLS_A_START); left > 0; left--) {
        await killDuringStart(cwd, random)
        kills++
        const { there, expected } = schemasLeftIn(cwd)
        expect(there).toEqual(expected)
      }
      const service = await spawnService({ cwd })
      const database = new Database(join(cwd, DATABASE), { readonly: true })
      expect(findUsers(database, users).problems).toEqual([])
      database.close()
      service.process.kill('SIGKILL')
      await service.exited
      const { there, expected } = schemasLeftIn(cwd)
      expect(there).toEqual(expected)
    }
    report(`killed during ${begin.start}`, { kills, users: users.length })
  },
)

function makeOlderDatabase(path: string): readonly WrittenUser[] {
  makeDatabase(path, { users: OLDER_USERS, migrations: 1 })
  return usersIn(path)
}

/** Leaves a database whose newest users are only in its WAL. */
async function writeAndKill(cwd: string): Promise<readonly WrittenUser[]> {
  const service = await spawnService({ cwd })
  const writer = createWriter({ label: 'lone', random: createRandom(), owners: new Map() })
  await writer.write(service.port, 60)
  service.process.kill('SIGKILL')
  await service.exited
  return writer.users
}

/** Checks a copy: opening the database itself would do the work of the next start. */
function schemasLeftIn(cwd: string) {
  const path = join(temporaryFolder(), 'copy.db')
  copyDatabase(join(cwd, DATABASE), path)
  const database = new Database(path)
  const found = schemas(database)
  database.close()
  return found
}

/** The JSON of each user after `afterId`, from the list in descending order. */
async function usersOverHttp(url: string, afterId: number): Promise<string[]> {
  const users: string[] = []
  let target: string | undefined = '/users?sort=-id&per_page=1000'
  while (target !== undefined) {
    const response: Response = await fetch(url + target)
    const page = (await response.json()) as { id: number }[]
    const newer = page.filter(({ id }) => id > afterId)
    users.push(...newer.map(user => JSON.stringify(user)))
    const next = /<([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
    target = newer.length < page.length ? undefined : next
  }
  return users
}
