import { afterAll, beforeAll, expect } from 'vitest'
import { createRandom, report } from '../../support/faults.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import {
  type ClusterOptions,
  createPostgresCluster,
  type PostgresCluster,
} from '../../support/postgres-cluster.ts'
import { type SpawnedService, spawnService } from '../../support/spawn-service.ts'
import { type SteadfastClients, startSteadfastClients } from './steadfast-clients.ts'

/** A PostgreSQL server for all tests of a file, each of which leaves it running. */
export function useCluster(options?: ClusterOptions): () => PostgresCluster {
  let cluster: PostgresCluster | undefined
  beforeAll(async () => {
    cluster = await createPostgresCluster(options)
  })
  afterAll(() => cluster?.remove())
  return () => cluster as PostgresCluster
}

export interface ClientedService extends SpawnedService {
  readonly clients: SteadfastClients
  /** The status of a request. */
  statusOf(path: string): Promise<number>
  /** Ends the clients. Expects that no acknowledged write is lost, and no response was wrong. */
  expectNothingLost(what: string): Promise<void>
}

/** A service in a process of its own, and clients, each of which has written. It ends with the test. */
export async function serveClients(databaseUrl: string): Promise<ClientedService> {
  const env = { DATABASE_URL: databaseUrl, LOG_LEVEL: 'fatal' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  const { port, url } = service
  const clients = startSteadfastClients({ port, clients: 16, random: createRandom() })
  await clients.untilEachHasWritten()
  return {
    ...service,
    clients,
    statusOf: async path => (await fetch(url + path)).status,
    expectNothingLost: async what => {
      await clients.untilEachHasWritten()
      await clients.stop()
      expect(clients.problems).toEqual([])
      expect(await clients.compare(port)).toEqual([])
      expect(service.process.exitCode).toBeNull()
      report(what, clients.answers)
    },
  }
}
