import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { restoreDatabase } from '../../../../src/storage/sqlite/maintenance/restore-database.ts'
import { Database } from '../../../../src/storage/sqlite/sqlite-driver.ts'
import { makeDatabase } from '../../../faults/databases.ts'
import { emailsIn, filesOf } from '../../../support/databases.ts'
import { temporaryFolder } from '../../../support/open-test-app.ts'

test('restoreDatabase throws, and changes nothing, if a service begins to write between its two locks', async () => {
  const folder = temporaryFolder()
  const [path, backup] = [join(folder, 'users.db'), join(folder, 'copy.db')]
  makeDatabase(path, { users: 7 })
  makeDatabase(backup, { users: 5 })
  const service = new Database(path, { timeout: 0 })
  onTestFinished(() => {
    service.close()
  })
  // The clock is read under the first lock for the name of the copy, and before the second lock for the revision.
  let timesAsked = 0
  const now = () => {
    if (++timesAsked === 2) service.exec('BEGIN IMMEDIATE')
    return Date.now()
  }
  const restoring = restoreDatabase({ path, backup, now, onProgress: () => undefined })
  await expect(restoring).rejects.toThrow('a process has it open: stop the service first')
  expect(timesAsked).toBe(2)
  service.exec('ROLLBACK')
  expect(emailsIn(path)).toHaveLength(7)
  expect(filesOf(path)).toEqual(['users.db'])
})
