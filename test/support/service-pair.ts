import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWithTests } from './clean-up-after.ts'
import { engine } from './engine.ts'
import { findManagementUrl, temporaryFolder } from './open-test-app.ts'
import { newPostgresDatabase } from './postgres-databases.ts'
import { share } from './shared-app.ts'
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
  return share(async atEnd => {
    const cwd = temporaryFolder(atEnd)
    const databaseUrl =
      engine === 'postgres' ? await newPostgresDatabase(undefined, atEnd) : join(cwd, 'users.db')
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify(limits))

    async function start(port = 0): Promise<SpawnedService> {
      const settings = {
        DATABASE_URL: databaseUrl,
        LIMITS_FILE: 'limits.json',
        MANAGEMENT_PORT: '0',
        PORT: String(port),
        TRUST_PROXY: '1',
      }
      const all = { ...settings, ...env() }
      const service = await spawnService({ cwd, env: all, outlivesTest: true })
      endWithTests(service.process)
      return service
    }

    const [one, second] = await Promise.all([start(), start()])
    let other = second
    atEnd(async () => {
      for (const { end } of [one, other]) await end('SIGKILL')
    })
    return {
      one,
      get other() {
        return other
      },
      databaseUrl,
      /** Starts the other one again on its port, once it has ended. */
      restartOther: async (): Promise<void> => {
        await other.exited
        other = await start(other.port)
      },
    }
  })
}

/** From the log of its start. */
export function managementUrlOf(service: SpawnedService): string {
  return findManagementUrl(linesOf(service.stdout()))
}
