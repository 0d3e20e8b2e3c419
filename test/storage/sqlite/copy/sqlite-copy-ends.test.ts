import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { CopyTarget } from '../../../../src/storage/copy/database-copy.ts'
import { openSqliteCopySource } from '../../../../src/storage/sqlite/copy/sqlite-copy-source.ts'
import { openSqliteCopyTarget } from '../../../../src/storage/sqlite/copy/sqlite-copy-target.ts'
import { examine } from '../../../../src/storage/sqlite/maintenance/find-faults.ts'
import { openSqlite } from '../../../../src/storage/sqlite/open-sqlite.ts'
import { Database } from '../../../../src/storage/sqlite/sqlite-driver.ts'
import { makeDatabase } from '../../../faults/databases.ts'
import { copiedContent, makeCopySource } from '../../../support/copy-databases.ts'
import { execute, filesOf, modeOf } from '../../../support/databases.ts'
import { temporaryFolder } from '../../../support/open-test-app.ts'

const TIME = '2026-01-31T12:00:00.000Z'

const OLDER = 'its schema is that of an older release: run `migrate`'

const UNFINISHED = 'it is an unfinished copy: run `copy` again, or delete it'

function newPath(): string {
  return join(temporaryFolder(), 'folder', 'users.db')
}

async function openTarget(path: string): Promise<CopyTarget> {
  const target = await openSqliteCopyTarget(path)
  onTestFinished(target.close)
  return target
}

async function makeUnfinished(path: string): Promise<void> {
  const target = await openSqliteCopyTarget(path)
  await target.begin()
  await target.close()
}

describe('openSqliteCopySource', () => {
  test('refuses what no service has filled', async () => {
    const path = join(temporaryFolder(), 'users.db')
    await expect(openSqliteCopySource(path)).rejects.toThrow('there is no such file')
    expect(existsSync(path)).toBe(false)
    await expect(openSqliteCopySource(':memory:')).rejects.toThrow(/memory of the service/)
    writeFileSync(path, '')
    await expect(openSqliteCopySource(path)).rejects.toThrow('it is empty')
    writeFileSync(path, 'text'.repeat(1000))
    await expect(openSqliteCopySource(path)).rejects.toThrow('it is not a SQLite database')
    execute(`${path}2`, 'CREATE TABLE cats (id INTEGER)')
    await expect(openSqliteCopySource(`${path}2`)).rejects.toThrow('of another program')
  })

  test('refuses an older schema and leaves it as it was', async () => {
    const path = newPath()
    makeDatabase(path, { users: 3, migrations: 9 })
    const before = readFileSync(path)
    await expect(openSqliteCopySource(path)).rejects.toThrow(OLDER)
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test('refuses an unfinished copy', async () => {
    const path = newPath()
    await makeUnfinished(path)
    await expect(openSqliteCopySource(path)).rejects.toThrow(UNFINISHED)
  })

  test.each(['0', '-5', '9007199254740992'])(
    'refuses a user with the id %s and names it',
    async id => {
      const path = join(temporaryFolder(), 'users.db')
      await makeCopySource(path)
      execute(path, `UPDATE users SET id = ${id} WHERE id = 3`)
      await expect(openSqliteCopySource(path)).rejects.toThrow(
        `user ${id} cannot be copied: ids are from 1 to 9007199254740991`,
      )
    },
  )

  test('refuses a last id that is not exact', async () => {
    const path = join(temporaryFolder(), 'users.db')
    await makeCopySource(path)
    execute(path, `UPDATE sqlite_sequence SET seq = 9007199254740993 WHERE name = 'users'`)
    const source = await openSqliteCopySource(path)
    onTestFinished(source.close)
    await expect(source.lastId()).rejects.toThrow('greater than 9007199254740991')
  })

  test('reads a database that a service has open', async () => {
    const path = join(temporaryFolder(), 'users.db')
    await makeCopySource(path)
    const service = await openSqlite({ path, now: Date.now })
    onTestFinished(() => {
      service.close()
    })
    const source = await openSqliteCopySource(path)
    onTestFinished(source.close)
    service.exec('DELETE FROM users')
    expect(await source.users(undefined, 100)).toHaveLength(23)
    expect(await source.countUsers()).toBe(23)
  })
})

describe('openSqliteCopyTarget', () => {
  test('creates folder and file, for its user only', async () => {
    const path = newPath()
    await openTarget(path)
    expect([modeOf(join(path, '..')), modeOf(path)]).toEqual([0o700, 0o600])
  })

  test('refuses a database in memory', async () => {
    await expect(openSqliteCopyTarget(':memory:')).rejects.toThrow(/memory of the service/)
  })

  test('refuses the database of another program, of an older release or of a newer one', async () => {
    const path = newPath()
    makeDatabase(path, { users: 0, migrations: 9 })
    const before = readFileSync(path)
    await expect(openSqliteCopyTarget(path)).rejects.toThrow(OLDER)
    expect(readFileSync(path).equals(before)).toBe(true)
    execute(`${path}2`, 'CREATE TABLE cats (id INTEGER)')
    await expect(openSqliteCopyTarget(`${path}2`)).rejects.toThrow('of another program')
    makeDatabase(`${path}3`, { users: 0 })
    execute(`${path}3`, `INSERT INTO schema_migrations VALUES (99, 'x', 'x', 'x')`)
    await expect(openSqliteCopyTarget(`${path}3`)).rejects.toThrow(/newer release/)
  })

  test('refuses a database that a service or another copy has open', async () => {
    const path = newPath()
    const target = await openTarget(path)
    await expect(openSqliteCopyTarget(path)).rejects.toThrow('another process holds a lock on it')
    await target.close()
    const service = await openSqlite({ path, now: Date.now })
    onTestFinished(() => {
      service.close()
    })
    await expect(openSqliteCopyTarget(path)).rejects.toThrow(
      'a process has it open: stop the service first',
    )
  })

  test('an unfinished copy is refused by everything else, and stays as it was', async () => {
    const path = newPath()
    await makeUnfinished(path)
    const before = readFileSync(path)
    await expect(openSqlite({ path, now: Date.now })).rejects.toThrow(UNFINISHED)
    await expect(openSqlite({ path, now: Date.now, mustExist: true })).rejects.toThrow(UNFINISHED)
    expect(readFileSync(path).equals(before)).toBe(true)
    expect(examine(path)).toMatchObject({ faults: [UNFINISHED] })
    expect(await (await openTarget(path)).isFree()).toBe(true)
  })

  test('a finished copy has all indexes and can be used', async () => {
    const path = newPath()
    const target = await openSqliteCopyTarget(path)
    await target.begin()
    await target.addUsers([[7, 'Ann', 'ann', 'ann@x.co', null, TIME, TIME]])
    await target.finish({
      signingKeys: [['cursor', 'ab'.repeat(32)]],
      lastId: 9,
      verify: async () => {},
    })
    await target.close()
    expect(filesOf(path)).toEqual(['users.db'])
    expect(examine(path)).toMatchObject({ faults: [] })
    expect(copiedContent(path)).toMatchObject({ lastId: [{ seq: 9 }] })
    ;(await openSqlite({ path, now: Date.now })).close()
  })

  test.each([
    ['a name that is empty', ['', '', 'b@x.co', null, TIME, TIME], /users_name_chars/],
    ['a time that is too long', ['B', 'b', 'b@x.co', null, TIME, `+0${TIME}`], /users_times/],
    ['a digest of no known kind', ['B', 'b', 'b@x.co', 'md5', TIME, TIME], /users_password_digest/],
  ] as const)('names the user with %s', async (_, columns, reason) => {
    const target = await openTarget(newPath())
    await target.begin()
    const users = [
      [1, 'Ann', 'ann', 'ann@x.co', null, TIME, TIME],
      [42, ...columns],
    ] as const
    const added = target.addUsers(users)
    await expect(added).rejects.toThrow(/^it cannot hold user 42: CHECK constraint failed: /)
    await expect(added).rejects.toThrow(reason)
    expect(await target.users(undefined, 10)).toEqual([])
  })

  test('a second user with the same e-mail ends the copy, which stays unfinished', async () => {
    const path = newPath()
    const target = await openTarget(path)
    await target.begin()
    await target.addUsers([
      [1, 'Ann', 'ann', 'ann@x.co', null, TIME, TIME],
      [2, 'Ann', 'ann', 'ANN@x.co', null, TIME, TIME],
    ])
    const finished = target.finish({ signingKeys: [], lastId: 2, verify: async () => {} })
    await expect(finished).rejects.toThrow(/^it cannot hold user 2: UNIQUE .*users_email_unique/)
    await target.close()
    const database = new Database(path, { readonly: true })
    const marks = database.prepare('SELECT count(*) FROM unfinished_copies').pluck().get()
    database.close()
    expect(marks).toBe(1)
  })
})
