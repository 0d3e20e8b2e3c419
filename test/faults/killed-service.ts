import { existsSync, watch } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { type SpawnedService, spawnMain, spawnService } from '../support/spawn-service.ts'
import type { Population } from './population.ts'

/** Where the service keeps its data by default, from its working directory. */
export const DATABASE = join('data', 'users.db')

/** As long as a start takes on a machine that is not idle. */
const START_MS = 400

/** Longer than it takes from the first touch of a file to the last of a start. */
const OPENING_MS = 50

/** Starts the service and kills it before, amid or after its work on the database. */
export async function killDuringStart(cwd: string, random: () => number): Promise<void> {
  const service = spawnMain({ cwd, env: { PORT: '0' } })
  if (random() < 0.4) await sleep(random() * START_MS)
  else {
    await Promise.race([firstTouch(cwd), service.exited])
    await sleep(random() * OPENING_MS)
  }
  service.process.kill('SIGKILL')
  await service.exited
}

/** Resolves when something is made or changed in the folder of the data, or that folder itself. */
function firstTouch(cwd: string): Promise<void> {
  const data = join(cwd, 'data')
  return new Promise(resolve => {
    const watcher = watch(existsSync(data) ? data : cwd, () => {
      watcher.close()
      resolve()
    })
  })
}

export interface Restart {
  readonly service: SpawnedService
  /** From the spawn until it listens. */
  readonly ms: number
  readonly problems: string[]
}

/** Starts the service, looks through its database while it runs, and retries what was in flight, before others write. */
export async function restart(cwd: string, population: Population): Promise<Restart> {
  const startedAt = performance.now()
  const service = await spawnService({ cwd })
  const ms = performance.now() - startedAt
  const database = new Database(join(cwd, DATABASE), { readonly: true })
  const problems = population.takeStock(database)
  database.close()
  if (problems.length === 0) {
    await population.retry(service.port)
    await population.writeAlone(service.port)
  }
  return { service, ms, problems }
}
