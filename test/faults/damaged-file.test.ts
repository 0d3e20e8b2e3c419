import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { overwritePages, PAGE_BYTES } from '../support/damage.ts'
import { isLong, report } from '../support/faults.ts'
import { createUser } from '../support/fill-users.ts'
import { fillWithUsers } from '../support/fill-with-users.ts'
import { ask, expectUnavailable } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

/** More users than the pages that the service keeps in memory can hold. */
const MANY_USERS = 40_000

const USERS_OF_238_MB = 1_000_000

/** Too large for a check of all pages at startup. */
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

test('a database with garbage in its middle is rejected at startup, and the error says what to do', async () => {
  const { cwd, path } = await folderWithUsers(MANY_USERS)
  const pages = statSync(path).size / PAGE_BYTES
  overwritePages(path, 'garbage ', { from: Math.floor(pages / 2) })
  report('a damaged database', { refusalMs: await expectRefused(cwd) })
})

test('a database damaged while in use answers 503 where it needs damaged pages, and serves the rest', async () => {
  const { cwd, path } = await folderWithUsers(MANY_USERS)
  const service = await spawnService({ cwd })
  expect((await ask(service, 'GET /users/1')).status).toBe(200)
  const pages = statSync(path).size / PAGE_BYTES
  overwritePages(path, 'garbage ', { from: 100, to: pages - 100 })
  expectUnavailable(await ask(service, `GET /users/${MANY_USERS / 2}`))
  expectUnavailable(await ask(service, `PUT /users/${MANY_USERS / 2}`, { user: { name: 'New' } }))
  expect((await ask(service, 'GET /users/1')).status).toBe(200)
  expect((await ask(service, 'GET /livez')).status).toBe(200)
  const isLogged = () => service.stdout().includes('database is damaged or unreadable')
  await until(isLogged)
})

test.each([
  { where: 'a name', text: 'Unmistakable', code: 3, found: 'name_lower is not the name' },
  { where: 'an address', text: 'unmistakable@example.com', code: 3, found: 'users_email_unique' },
  { where: 'a digest', text: '$argon2id$', code: 0, found: 'sound' },
])('one changed byte in $where is served unchanged, and check ends with $code', async changed => {
  const { text, code, found } = changed
  const cwd = temporaryFolder()
  const first = await spawnService({ cwd })
  const user = {
    name: 'Unmistakable',
    email: 'unmistakable@example.com',
    password: 'correct horse',
  }
  await createUser(first.url, user)
  first.process.kill('SIGTERM')
  await first.exited

  const path = join(cwd, 'data', 'users.db')
  const bytes = readFileSync(path)
  const at = bytes.indexOf(text) + text.length - 2
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
  writeFileSync(path, bytes)
  const checked = await run({ cwd, args: ['check'] })
  expect(checked.code).toBe(code)
  expect(checked.stdout + checked.stderr).toContain(found)
  const second = await spawnService({ cwd })
  expect(second.stdout()).not.toContain('"level":"warn"')
  expect((await ask(second, 'GET /users/1')).status).toBe(200)
})

describe.runIf(isLong)('a database too large for a full check at startup', () => {
  async function folderWithHugeFile() {
    const { cwd, path } = await folderWithUsers(1000)
    const database = new Database(path)
    database.exec('CREATE TABLE filler (bytes BLOB)')
    database.prepare('INSERT INTO filler VALUES (zeroblob(?))').run(HUGE_BYTES)
    database.pragma('wal_checkpoint(TRUNCATE)')
    return { cwd, path, database }
  }

  test('starts', async () => {
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

  test('is rejected without its end while the last writes are in its WAL', async () => {
    const { cwd, path, database } = await folderWithHugeFile()
    database.exec('CREATE TABLE more (text); INSERT INTO more VALUES (1)')
    truncateSync(path, HUGE_BYTES / 2)
    report('the same, with a WAL', { refusalMs: await expectRefused(cwd) })
    database.close()
  })
})

test.runIf(isLong)('a database of a million users starts quickly', async () => {
  const { cwd, path } = await folderWithUsers(USERS_OF_238_MB)
  const startedAt = performance.now()
  await spawnService({ cwd })
  const startMs = Math.round(performance.now() - startedAt)
  report('a start on a million users', { startMs, megabytes: statSync(path).size / 1e6 })
})
