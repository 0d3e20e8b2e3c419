import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDatabaseIn } from '../support/databases.ts'
import { inForm } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { createClients } from './clients.ts'

/** In the file from the start, so that the copy takes long enough. */
const FILLED_USERS = inForm({ short: 40_000, long: 1_000_000 })

test('a backup under write load ends, and has all writes acknowledged before it began, and no partial user', async () => {
  const cwd = temporaryFolder()
  makeDatabaseIn(cwd, { users: FILLED_USERS })
  const service = await spawnService({ cwd, keepsLog: false })
  const clients = createClients()
  const writing = clients.write(service.port)
  await clients.untilEachHasWritten()
  const before = process.hrtime.bigint()
  expect(await run({ cwd, args: ['backup', 'copy.db'] })).toMatchObject({ code: 0 })
  clients.stop()
  await writing
  expect(clients.problems).toEqual([])

  const elsewhere = temporaryFolder()
  const restored = await run({ cwd: elsewhere, args: ['restore', join(cwd, 'copy.db')] })
  expect(restored.code).toBe(0)
  expect((await run({ cwd: elsewhere, args: ['check'] })).stdout).toContain('sound')
  const again = await spawnService({ cwd: elsewhere })
  expect(await clients.compare(again.url, { before, afterId: FILLED_USERS })).toEqual([])
})
