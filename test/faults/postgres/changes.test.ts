import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { withPostgres } from '../../support/postgres-databases.ts'
import { shareServer } from '../../support/shared-app.ts'
import { run, type SpawnedService, spawnService } from '../../support/spawn-service.ts'
import { expectRightCopies } from '../followed-writes.ts'

const cluster = shareServer(createPostgresCluster)

test('followers of two services have exactly the users, beside slow and rolled back transactions, kills and crashes', async () => {
  const env = { DATABASE_URL: cluster.url() }
  const options = { cwd: temporaryFolder(), keepsLog: false, env }
  const services: SpawnedService[] = [await spawnService(options), await spawnService(options)]
  let serial = 0
  const restarts = await expectRightCopies({
    urls: () => services.map(({ url }) => url),
    /** Writes first and commits, or does not, long after others have. */
    writeBeside: random =>
      withPostgres(env.DATABASE_URL, async client => {
        const name = `T${serial++}`
        await client.query('BEGIN')
        await client.query(
          `INSERT INTO users (name, name_lower, email, created_at, updated_at)
           SELECT '${name}', lower('${name}'), lower('${name}') || random() || '@y.co', now, now
           FROM to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS now`,
        )
        await client.query(`DELETE FROM users WHERE id IN (
          SELECT id FROM users ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED)`)
        await sleep(random() * 300)
        await client.query(random() < 0.3 ? 'ROLLBACK' : 'COMMIT')
      }),
    disturb: async round => {
      if (round === 1) {
        await cluster.kill()
        await cluster.start()
      }
      const [killed] = services.splice(round % 2, 1)
      await killed?.end('SIGKILL')
      services.push(await spawnService(options))
    },
  })
  expect(restarts).toEqual([0, 0, 0, 0])
  // What was written beside has no words.
  expect(await run({ ...options, args: ['migrate', '--reindex'] })).toMatchObject({ code: 0 })
  expect(await run({ ...options, args: ['check'] })).toMatchObject({ code: 0 })
})
