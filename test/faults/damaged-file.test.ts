import { appendFileSync, copyFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import { overwritePages, PAGE_BYTES } from '../support/damage.ts'
import { makeDatabaseIn } from '../support/databases.ts'
import { createRandom, inForm, isLong } from '../support/faults.ts'
import { ask, expectUnavailable } from '../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

/** More users than the pages that the service keeps in memory can hold. */
const MANY_USERS = 40_000

/** Too large for a check of all pages at startup. */
const HUGE_BYTES = 300_000_000

const DAMAGED = /^DATABASE_URL.*it is damaged: restore it from a backup.*\n$/

function folderWithUsers(users: number): { cwd: string; path: string } {
  const cwd = temporaryFolder()
  return { cwd, path: makeDatabaseIn(cwd, { users }) }
}

async function expectRefused(cwd: string): Promise<void> {
  const { code, stdout, stderr } = await run({ cwd, env: { PORT: '0' } })
  expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(DAMAGED)])
}

test('a database with garbage in its middle is rejected at startup, and the error says what to do', async () => {
  const { cwd, path } = folderWithUsers(MANY_USERS)
  overwritePages(path, 'garbage ', { from: Math.floor(statSync(path).size / PAGE_BYTES / 2) })
  await expectRefused(cwd)
})

test('a database damaged while in use answers 503 where it needs damaged pages, and serves the rest', async () => {
  const { cwd, path } = folderWithUsers(MANY_USERS)
  const service = await spawnService({ cwd })
  expect((await ask(service, 'GET /users/1')).status).toBe(200)
  const pages = statSync(path).size / PAGE_BYTES
  overwritePages(path, 'garbage ', { from: 100, to: pages - 100 })
  const far = `/users/${MANY_USERS / 2}`
  expectUnavailable(await ask(service, `GET ${far}`))
  expectUnavailable(await ask(service, `PUT ${far}`, { user: { name: 'New' } }))
  for (const path of ['/users/1', '/livez']) {
    expect((await ask(service, `GET ${path}`)).status).toBe(200)
  }
  await until(() => service.stdout().includes('database is damaged or unreadable'))
})

test('of a WAL that is cut off, with garbage behind it or not, all users up to that place are there', async () => {
  const random = createRandom()
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  const service = await spawnService({ cwd })
  const walBytes: number[] = []
  // Too few to start a checkpoint.
  for (let count = 0; count < 20; count++) {
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
    walBytes.push(statSync(`${path}-wal`).size)
  }
  await service.end('SIGKILL')
  const all = walBytes.at(-1) as number
  const lengths = Array.from({ length: inForm({ short: 5, long: 200 }) }, () => random() * all)
  for (const length of [all, ...lengths.map(Math.floor)]) {
    const copy = join(temporaryFolder(), 'copy.db')
    for (const ending of ['', '-wal']) copyFileSync(path + ending, copy + ending)
    truncateSync(`${copy}-wal`, length)
    const garbage = Array.from({ length: 9000 }, () => random() * 256)
    if (random() < 0.5) appendFileSync(`${copy}-wal`, Buffer.from(garbage))
    const { http } = await openTestApp({ env: { DATABASE_URL: copy } })
    const { body } = await http.get('/users').expect(200)
    const ids = walBytes.flatMap((bytes, index) => (bytes <= length ? index + 1 : []))
    expect(body.map(({ id }: { id: number }) => id)).toEqual(ids)
  }
})

test.runIf(isLong)(
  'a database too large for a full check starts, and is refused without its end, also beside a WAL',
  async () => {
    const { cwd, path } = folderWithUsers(1000)
    const database = new Database(path)
    database.exec('CREATE TABLE filler (bytes BLOB)')
    database.prepare('INSERT INTO filler VALUES (zeroblob(?))').run(HUGE_BYTES)
    database.pragma('wal_checkpoint(TRUNCATE)')
    const service = await spawnService({ cwd })
    await service.end('SIGTERM')
    database.exec('CREATE TABLE more (text); INSERT INTO more VALUES (1)')
    truncateSync(path, HUGE_BYTES / 2)
    await expectRefused(cwd)
    database.close()
  },
)
