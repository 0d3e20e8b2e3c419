import { existsSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createSqliteEngine } from '../../../src/storage/sqlite/sqlite-storage.ts'
import type { OpenStorageOptions } from '../../../src/storage/storage.ts'
import type { ImportCheckpoint } from '../../../src/users/transfer/user-import-store.ts'
import { emailsIn, execute } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const ANN = { name: 'Ann', email: 'ann@example.com', passwordDigest: null }

async function open(path: string, options: Partial<OpenStorageOptions> = {}) {
  const clocks = { now: Date.now, steadyNow: Date.now }
  const storage = await createSqliteEngine(path).open({
    ...clocks,
    maxWaitingWrites: 10,
    ifMissing: 'create',
    ...options,
  })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= storage.close()
    return closed
  }
  onTestFinished(close)
  return { ...storage, close }
}

describe('createSqliteEngine', () => {
  test('open gives every process the same signing key and the same users', async () => {
    const path = join(temporaryFolder(), 'users.db')
    const [one, other] = [await open(path), await open(path)]
    expect(await one.signingKey('cursor')).toHaveLength(32)
    expect(await one.signingKey('cursor')).toEqual(await other.signingKey('cursor'))
    const { id } = await one.users.create(ANN)
    expect(await other.users.find(id)).toMatchObject({ id })
  })

  test.each(['refuse', 'use empty'] as const)('open with %s creates no file', async ifMissing => {
    const path = join(temporaryFolder(), 'users.db')
    const opened = open(path, { ifMissing })
    if (ifMissing === 'refuse') await expect(opened).rejects.toThrow('there is no such file')
    else expect(await (await opened).users.find(1)).toBeUndefined()
    expect(existsSync(path)).toBe(false)
  })

  test.each(['refuse', 'use empty'] as const)(
    'open with %s rejects an older schema',
    async ifMissing => {
      const path = join(temporaryFolder(), 'users.db')
      await (await open(path)).close()
      execute(path, 'DELETE FROM schema_migrations WHERE version > 3')
      await expect(open(path, { ifMissing })).rejects.toThrow(
        'its schema is that of an older release',
      )
    },
  )

  test('open rejects a database in memory if it must persist', async () => {
    await expect(open(':memory:', { mustPersist: true })).rejects.toThrow('in the memory of')
    expect(createSqliteEngine(':memory:').isInMemory).toBe(true)
    expect(createSqliteEngine('users.db').isInMemory).toBe(false)
  })

  test('openTrialImports decides like imports and stores nothing', async () => {
    const path = join(temporaryFolder(), 'users.db')
    const storage = await open(path)
    await storage.users.create(ANN)
    const trial = await storage.openTrialImports()
    const bob = { name: 'Bob', email: 'bob@example.com' }
    const { outcomes } = await trial.write({
      users: [{ ...ANN, name: 'Anna' }, bob],
      onConflict: 'fail',
      // Its result is not stored.
      checkpointAfter: () => ({}) as ImportCheckpoint,
    })
    expect(outcomes).toEqual(['email_taken', 'created'])
    await storage.close()
    expect(emailsIn(path)).toEqual([ANN.email])
  })

  test('a closed storage rejects writes', async () => {
    const storage = await open(join(temporaryFolder(), 'users.db'))
    await storage.close()
    await expect(storage.users.create(ANN)).rejects.toMatchObject({ code: 'shutting_down' })
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
