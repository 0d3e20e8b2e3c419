import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  createFailingDisk,
  type FailingDisk,
  whyNoFailingDisk,
} from '../../support/failing-disk.ts'
import { createRandom, report } from '../../support/faults.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { spawnService } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'
import { startSteadfastClients } from './steadfast-clients.ts'

const reason = whyNoFailingDisk()
if (reason !== undefined) console.log(`skipped: ${reason}`)

test.skipIf(reason)(
  'while the disk of PostgreSQL is full, writes that need space get 503 and reads are answered',
  async () => {
    let disk: FailingDisk | undefined
    const cluster = await createPostgresCluster({
      environmentOf: data => {
        disk = createFailingDisk(join(data, 'base'))
        return disk.env
      },
    })
    onTestFinished(cluster.remove)
    const service = await spawnService({
      cwd: temporaryFolder(),
      env: { DATABASE_URL: cluster.url(), LOG_LEVEL: 'fatal' },
    })
    const { port, url } = service
    const clients = startSteadfastClients({ port, clients: 16, random: createRandom() })
    await clients.untilEachHasWritten()
    disk?.fail({ writes: 'ENOSPC' })
    await until(() => (clients.answers['POST 503 storage_unavailable'] ?? 0) > 50)
    expect((await fetch(`${url}/users`)).status).toBe(200)
    disk?.work()
    await clients.untilEachHasWritten()
    await clients.stop()
    expect(clients.problems).toEqual([])
    expect(await clients.compare(port)).toEqual([])
    report('disk of PostgreSQL full', clients.answers)
  },
)
