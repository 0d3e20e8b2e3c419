import { existsSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createSqliteEngine } from '../../../src/storage/sqlite/sqlite-storage.ts'
import { describeStorage, openStored } from '../../contracts/storage-contract.ts'
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
      markCopy: async () =>
        execute(
          path,
          `INSERT INTO unfinished_copies (singleton, source_hash) VALUES (1, 'source')`,
        ),
    }
  },
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
