import { existsSync, renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createSqliteEngine } from '../../../src/storage/sqlite/sqlite-storage.ts'
import { describeStorage, openStored } from '../../contracts/storage-contract.ts'
import { describeStorageReport } from '../../contracts/storage-report-contract.ts'
import { emailsIn, execute } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const newPath = () => join(temporaryFolder(), 'users.db')

describeStorage({
  name: 'a SQLite file',
  newDatabase: async () => {
    const path = newPath()
    return {
      engine: createSqliteEngine(path),
      exists: async () => existsSync(path),
      emails: async () => emailsIn(path),
      execute: async sql => execute(path, sql),
    }
  },
})

describeStorageReport({
  name: 'a SQLite file',
  open: async () => {
    const databaseUrl = newPath()
    const storage = await openStored(createSqliteEngine(databaseUrl), { maxWaitingWrites: 1000 })
    return { storage, databaseUrl }
  },
})

test('fileBytes are the sizes of the file and of its WAL, found through links, while there is a file', async () => {
  const path = newPath()
  const link = join(path, '..', 'link.db')
  symlinkSync('users.db', link)
  const { users, report, close } = await openStored(createSqliteEngine(link))
  await users.create({ name: 'Ann', email: 'ann@example.com', passwordDigest: null })
  const wal = statSync(`${path}-wal`).size
  expect(wal).toBeGreaterThan(0)
  expect((await report()).fileBytes).toEqual({ database: statSync(path).size, wal })
  await close()
  expect((await report()).fileBytes).toEqual({ database: statSync(path).size, wal: 0 })
  renameSync(path, `${path}.moved`)
  expect(await report()).not.toHaveProperty('fileBytes')
  const inMemory = await openStored(createSqliteEngine(':memory:'))
  const commits = expect.anything()
  expect(await inMemory.report()).toEqual({ engine: 'sqlite', waitingWrites: 0, commits })
})
