import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import { overwritePages, PAGE_BYTES } from '../support/damage.ts'
import { createRandom, inForm, isLong } from '../support/faults.ts'
import { fillWithUsers } from '../support/fill-users.ts'
import { ask, expectUnavailable } from '../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { canRunAsNobody } from '../support/other-user.ts'
import { run, type SpawnOptions, spawnService } from '../support/spawn-service.ts'
import { isRoot, NOBODY, owner } from '../support/unprivileged-user.ts'
import { until } from '../support/until.ts'

/** More users than the pages that the service keeps in memory can hold. */
const MANY_USERS = 40_000

/** Too large for a check of all pages at startup. */
const HUGE_BYTES = 300_000_000

const DAMAGED = /DATABASE_URL.*it is damaged: restore it from a backup/

async function folderWithUsers(count: number): Promise<{ cwd: string; path: string }> {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  await fillWithUsers(path, count)
  return { cwd, path }
}

async function expectRefused(options: SpawnOptions, why: RegExp): Promise<void> {
  const { code, stdout, stderr } = await run({ ...options, env: { PORT: '0' } })
  expect([code, stdout, stderr.trimEnd().split('\n').length]).toEqual([1, '', 1])
  expect(stderr).toMatch(why)
}

test('a database with garbage in its middle is rejected at startup, and the error says what to do', async () => {
  const { cwd, path } = await folderWithUsers(MANY_USERS)
  overwritePages(path, 'garbage ', { from: Math.floor(statSync(path).size / PAGE_BYTES / 2) })
  await expectRefused({ cwd }, DAMAGED)
})

test('a database damaged while in use answers 503 where it needs damaged pages, and serves the rest', async () => {
  const { cwd, path } = await folderWithUsers(MANY_USERS)
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

test.each([
  { where: 'a name', text: 'Unmistakable', code: 3, found: 'name_lower is not the name' },
  { where: 'an address', text: 'unmistakable@example.com', code: 3, found: 'users_email_unique' },
  { where: 'a digest', text: '$argon2id$', code: 0, found: 'sound' },
])('one changed byte in $where is served unchanged, and check ends with $code', async changed => {
  const { text, code, found } = changed
  const cwd = temporaryFolder()
  const first = await spawnService({ cwd })
  const [name, email] = ['Unmistakable', 'unmistakable@example.com']
  await ask(first, 'POST /users', newUserBody({ name, email, password: 'correct horse' }))
  await first.end('SIGTERM')

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

describe.skipIf(!canRunAsNobody)('without write permission', () => {
  async function folderOfOwner() {
    const { cwd, path: file } = await folderWithUsers(1)
    const data = join(cwd, 'data')
    for (const path of [cwd, data]) chmodSync(path, 0o755)
    if (isRoot) for (const path of [cwd, data, file]) chownSync(path, NOBODY, NOBODY)
    return { cwd, folder: data, file }
  }

  test.each([
    ['file', 0o444],
    ['folder', 0o555],
  ] as const)(
    'on the %s a start is refused, and the error says what to do',
    async (which, mode) => {
      const { cwd, ...paths } = await folderOfOwner()
      chmodSync(paths[which], mode)
      const why = /DATABASE_URL.*it cannot be written: give the user of this process/
      await expectRefused({ cwd, ...owner }, why).finally(() => chmodSync(paths.folder, 0o755))
    },
  )

  test('from now on, a database in use is served as before', async () => {
    const { cwd, file } = await folderOfOwner()
    const service = await spawnService({ cwd, ...owner })
    chmodSync(file, 0o444)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
    expect((await ask(service, 'GET /users/2')).status).toBe(200)
  })
})

test.runIf(isLong)(
  'a database too large for a full check starts, and is refused without its end, also beside a WAL',
  async () => {
    const { cwd, path } = await folderWithUsers(1000)
    const database = new Database(path)
    database.exec('CREATE TABLE filler (bytes BLOB)')
    database.prepare('INSERT INTO filler VALUES (zeroblob(?))').run(HUGE_BYTES)
    database.pragma('wal_checkpoint(TRUNCATE)')
    const service = await spawnService({ cwd })
    await service.end('SIGTERM')
    database.exec('CREATE TABLE more (text); INSERT INTO more VALUES (1)')
    truncateSync(path, HUGE_BYTES / 2)
    await expectRefused({ cwd }, DAMAGED)
    database.close()
  },
)
