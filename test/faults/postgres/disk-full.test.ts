import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  createFailingDisk,
  type FailingDisk,
  whyNoFailingDisk,
} from '../../support/failing-disk.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { until } from '../../support/until.ts'
import { serveClients } from './served-cluster.ts'

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
    const { clients, statusOf, expectNothingLost } = await serveClients(cluster.url())
    disk?.fail({ writes: 'ENOSPC' })
    await until(() => (clients.answers['POST 503 storage_unavailable'] ?? 0) > 50)
    expect(await statusOf('/users')).toBe(200)
    disk?.work()
    await expectNothingLost('disk of PostgreSQL full')
  },
)
