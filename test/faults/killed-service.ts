import { existsSync, watch } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { type SpawnedService, spawnMain, spawnService } from '../support/spawn-service.ts'
import type { Population } from './population.ts'

/** The default path of the database in the working directory of the service. */
export const DATABASE = join('data', 'users.db')

/** The time of a start on a machine that is not idle. */
const START_MS = 400

/** Longer than the time between the first and the last file access of a start. */
const OPENING_MS = 50

/** Starts the service and kills it before, during or after its work on the database. */
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

/** Resolves when the data folder, or a file in it, is created or changed. */
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
  /** Milliseconds from the spawn until it listens. */
  readonly ms: number
  readonly problems: string[]
}

/** Starts the service, checks its database while it runs, and retries the writes in flight before other clients write. */
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
