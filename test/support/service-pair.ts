import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { endWithTests } from './clean-up-after.ts'
import { engine } from './engine.ts'
import { findManagementUrl } from './open-test-app.ts'
import { createPostgresDatabase } from './postgres-databases.ts'
import { linesOf, type SpawnedService, spawnService } from './spawn-service.ts'

interface ServicePairOptions {
  /** Of both, as JSON. */
  readonly limits?: object
  /** Called when both start. */
  readonly env?: () => Readonly<Record<string, string>>
}

/**
 * Two services of one database, in processes of their own, for all tests of a file. Both start at the same moment, where there is
 * no database yet. Each has a management port.
 */
export function useServicePair({ limits = {}, env = () => ({}) }: ServicePairOptions = {}) {
  const cwd = mkdtempSync(join(tmpdir(), 'user-records-pair-'))
  let databaseUrl = join(cwd, 'users.db')
  let dropDatabase = async () => {}
  let services: SpawnedService[] = []

  async function start(port = 0): Promise<SpawnedService> {
    const settings = {
      DATABASE_URL: databaseUrl,
      LIMITS_FILE: 'limits.json',
      MANAGEMENT_PORT: '0',
      PORT: String(port),
      TRUST_PROXY: '1',
    }
    const service = await spawnService({ cwd, env: { ...settings, ...env() }, outlivesTest: true })
    endWithTests(service.process)
    return service
  }

  beforeAll(async () => {
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify(limits))
    if (engine === 'postgres') {
      const { url, drop } = await createPostgresDatabase()
      databaseUrl = url
      dropDatabase = drop
    }
    services = await Promise.all([start(), start()])
  })

  afterAll(async () => {
    for (const { end } of services) await end('SIGKILL')
    await dropDatabase()
    rmSync(cwd, { recursive: true, force: true })
  })

  return {
    get one() {
      return services[0] as SpawnedService
    },
    get other() {
      return services[1] as SpawnedService
    },
    get databaseUrl() {
      return databaseUrl
    },
    /** The working directory of both. */
    cwd,
    /** Starts the other one again on its port, once it has ended. */
    restartOther: async (): Promise<void> => {
      const [one, other] = services as [SpawnedService, SpawnedService]
      await other.exited
      services = [one, await start(other.port)]
    },
  }
}

/** From the log of its start. */
export function managementUrlOf(service: SpawnedService): string {
  return findManagementUrl(linesOf(service.stdout()))
}
