import { statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import { overwritePages, PAGE_BYTES } from '../support/damage.ts'
import { isLong, report } from '../support/faults.ts'
import { fillWithUsers } from '../support/fill-with-users.ts'
import { ask, expectUnavailable } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, spawnService } from '../support/spawn-service.ts'

/** More users than the pages that the service keeps in memory can hold. */
const MANY_USERS = 40_000

const USERS_OF_238_MB = 1_000_000

/** Beyond what is checked to its last page at a start. */
const HUGE_BYTES = 300_000_000

async function folderWithUsers(count: number): Promise<{ cwd: string; path: string }> {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  await fillWithUsers(path, count)
  return { cwd, path }
}

async function expectRefused(cwd: string): Promise<number> {
  const startedAt = performance.now()
  const { code, stdout, stderr } = await run({ cwd, env: { PORT: '0' } })
  expect([code, stdout, stderr.trimEnd().split('\n').length]).toEqual([1, '', 1])
  expect(stderr).toMatch(/DATABASE_URL.*it is damaged: restore it from a backup/)
  return Math.round(performance.now() - startedAt)
}

test('a database with garbage in its middle is refused at start, with what to do', async () => {
  const { cwd, path } = await folderWithUsers(MANY_USERS)
  const pages = statSync(path).size / PAGE_BYTES
  overwritePages(path, 'garbage ', { from: Math.floor(pages / 2) })
  report('a damaged database', { refusalMs: await expectRefused(cwd) })
})

test('a database that is damaged while it is served refuses what needs the damage and serves the rest', async () => {
  const { cwd, path } = await folderWithUsers(MANY_USERS)
  const service = await spawnService({ cwd })
  expect((await ask(service, 'GET /users/1')).status).toBe(200)
  const pages = statSync(path).size / PAGE_BYTES
  overwritePages(path, 'garbage ', { from: 100, to: pages - 100 })
  expectUnavailable(await ask(service, `GET /users/${MANY_USERS / 2}`))
  expectUnavailable(await ask(service, `PUT /users/${MANY_USERS / 2}`, { user: { name: 'New' } }))
  expect((await ask(service, 'GET /users/1')).status).toBe(200)
  expect((await ask(service, 'GET /livez')).status).toBe(200)
  const isLogged = () => service.stdout().includes('the database is damaged or cannot be read')
  await vi.waitUntil(isLogged, { timeout: 10_000 })
})

describe.runIf(isLong)('a database too large to be looked through at a start', () => {
  async function folderWithHugeFile() {
    const { cwd, path } = await folderWithUsers(1000)
    const database = new Database(path)
    database.exec('CREATE TABLE filler (bytes BLOB)')
    database.prepare('INSERT INTO filler VALUES (zeroblob(?))').run(HUGE_BYTES)
    database.pragma('wal_checkpoint(TRUNCATE)')
    return { cwd, path, database }
  }

  test('comes up', async () => {
    const { cwd, database } = await folderWithHugeFile()
    database.close()
    const startedAt = performance.now()
    await spawnService({ cwd })
    report('a database of 300 MB', { startMs: Math.round(performance.now() - startedAt) })
  })

  test('is refused without its end', async () => {
    const { cwd, path, database } = await folderWithHugeFile()
    database.close()
    truncateSync(path, HUGE_BYTES - PAGE_BYTES)
    report('a database of 300 MB without its end', { refusalMs: await expectRefused(cwd) })
  })

  test('is refused without its end while the last writes are in its WAL', async () => {
    const { cwd, path, database } = await folderWithHugeFile()
    database.exec('CREATE TABLE more (text); INSERT INTO more VALUES (1)')
    truncateSync(path, HUGE_BYTES / 2)
    report('the same, with a WAL', { refusalMs: await expectRefused(cwd) })
    database.close()
  })

  test.each(['garbage ', '\0'])('is refused with %j in its first pages', async text => {
    const { cwd, path, database } = await folderWithHugeFile()
    database.close()
    overwritePages(path, text, { from: 1, to: 20 })
    report('a database of 300 MB with damage', { refusalMs: await expectRefused(cwd) })
  })
})

test.runIf(isLong)('a database of a million users is up soon', async () => {
  const { cwd, path } = await folderWithUsers(USERS_OF_238_MB)
  const startedAt = performance.now()
  await spawnService({ cwd })
  const startMs = Math.round(performance.now() - startedAt)
  report('a start on a million users', { startMs, megabytes: statSync(path).size / 1e6 })
})
