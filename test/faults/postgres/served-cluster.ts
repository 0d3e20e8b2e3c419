import { expect } from 'vitest'
import { report } from '../../support/faults.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { spawnService } from '../../support/spawn-service.ts'
import { createClients } from '../clients.ts'

/** A service in a process of its own, and clients, each of which has written. It ends with the test. */
export async function serveClients(databaseUrl: string) {
  const env = { DATABASE_URL: databaseUrl, LOG_LEVEL: 'fatal' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  const { port, url } = service
  const clients = createClients()
  const writing = clients.write(port)
  await clients.untilEachHasWritten()
  return {
    ...service,
    clients,
    statusOf: async (path: string) => (await fetch(url + path)).status,
    /** Ends the clients. No acknowledged write may be lost, and no response may have been wrong. */
    expectNothingLost: async (what: string) => {
      await clients.untilEachHasWritten()
      clients.stop()
      await writing
      expect(await clients.compare(url)).toEqual([])
      await clients.settle(port)
      expect(clients.problems).toEqual([])
      expect([clients.cutAt, service.process.exitCode]).toEqual([[], null])
      report(what, clients.answers)
    },
  }
}
