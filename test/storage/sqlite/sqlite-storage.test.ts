import { existsSync, renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createSqliteEngine } from '../../../src/storage/sqlite/sqlite-storage.ts'
import { describeStorage, openStored } from '../../contracts/storage-contract.ts'
import { describeStorageReport } from '../../contracts/storage-report-contract.ts'
import { emailsIn, execute } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

describeStorage({
  name: 'a SQLite file',
  newDatabase: async () => {
    const path = join(temporaryFolder(), 'users.db')
    return {
      engine: createSqliteEngine(path),
      exists: async () => existsSync(path),
      emails: async () => emailsIn(path),
      forgetMigration: async () =>
        execute(
          path,
          'DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)',
        ),
      markCopy: async () => execute(path, `INSERT INTO unfinished_copies (singleton) VALUES (1)`),
    }
  },
})

describeStorageReport({
  name: 'a SQLite file',
  open: async () => {
    const databaseUrl = join(temporaryFolder(), 'users.db')
    const storage = await openStored(createSqliteEngine(databaseUrl), { maxWaitingWrites: 1000 })
    return { storage, databaseUrl }
  },
})

describe('Storage.report: SQLite', () => {
  test('fileBytes are the sizes of the file and of its WAL, found through links', async () => {
    const folder = temporaryFolder()
    const path = join(folder, 'users.db')
    symlinkSync('users.db', join(folder, 'link.db'))
    const { users, report, close } = await openStored(createSqliteEngine(join(folder, 'link.db')))
    await users.create({ name: 'Ann', email: 'ann@example.com', passwordDigest: null })
    const wal = statSync(`${path}-wal`).size
    expect(wal).toBeGreaterThan(0)
    expect((await report()).fileBytes).toEqual({ database: statSync(path).size, wal })
    await close()
    expect((await report()).fileBytes).toEqual({ database: statSync(path).size, wal: 0 })
  })

  test('fileBytes are absent in memory, and while the file is gone', async () => {
    const inMemory = await openStored(createSqliteEngine(':memory:'))
    expect(await inMemory.report()).toEqual({
      engine: 'sqlite',
      waitingWrites: 0,
      commits: expect.anything(),
    })
    const path = join(temporaryFolder(), 'users.db')
    const { report } = await openStored(createSqliteEngine(path))
    renameSync(path, `${path}.moved`)
    expect(await report()).not.toHaveProperty('fileBytes')
    renameSync(`${path}.moved`, path)
    expect(await report()).toHaveProperty('fileBytes')
  })
})

describe('createSqliteEngine', () => {
  test('open with refuse names what is missing', async () => {
    const engine = createSqliteEngine(join(temporaryFolder(), 'users.db'))
    await expect(openStored(engine, { ifMissing: 'refuse' })).rejects.toThrow(
      'there is no such file',
    )
  })

  test('open rejects a database in memory if it must persist', async () => {
    const engine = createSqliteEngine(':memory:')
    await expect(openStored(engine, { mustPersist: true })).rejects.toThrow('in the memory of')
    expect(engine.isInMemory).toBe(true)
  })

  test('ownsFile recognises the database and the files beside it through any link', () => {
    const folder = temporaryFolder()
    const path = join(folder, 'users.db')
    const { ownsFile } = createSqliteEngine(path)
    symlinkSync('users.db-wal', join(folder, 'link'))
    const files = [path, `${path}-wal`, `${path}-shm`, `${path}-journal`, join(folder, 'link')]
    expect(files.filter(ownsFile)).toEqual(files)
    expect(ownsFile(join(folder, 'other.db'))).toBe(false)
  })
})
