import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../../src/storage/sqlite/read-view.ts'
import { createSqliteApiKeyStore } from '../../../../src/storage/sqlite/sqlite-api-key-store.ts'
import { Database } from '../../../../src/storage/sqlite/sqlite-driver.ts'
import { createSqliteUserReads } from '../../../../src/storage/sqlite/sqlite-user-reads.ts'
import { createWriteQueue } from '../../../../src/storage/sqlite/write-queue.ts'
import { connectWriter } from '../../../../src/storage/sqlite/writer/connect-writer.ts'
import { openWorkerStorage } from '../../../../src/storage/sqlite/writer/open-worker-storage.ts'
import { createRemoteWrites } from '../../../../src/storage/sqlite/writer/remote-writes.ts'
import { OPEN_DATABASE, REPORT_STORAGE } from '../../../../src/storage/sqlite/writer/run-writer.ts'
import type { UserWrites } from '../../../../src/users/user-repository.ts'
import type { Calls } from '../../../../src/workers/calls.ts'
import { describeApiKeyStore } from '../../../contracts/api-key-store-contract.ts'
import { describeBanStore } from '../../../contracts/ban-store-contract.ts'
import { describeStorageReport } from '../../../contracts/storage-report-contract.ts'
import { describeUserRepository } from '../../../contracts/user-repository-contract.ts'
import { temporaryFolder } from '../../../support/open-test-app.ts'
import {
  connectCalls,
  openWorker,
  openWriterHere,
  type WorkerOptions,
} from '../../../support/worker-storage.ts'

describeUserRepository({
  name: 'a worker on SQLite',
  open: async now => {
    const path = join(temporaryFolder(), 'users.db')
    const writer = await openWriterHere(path, now)
    const worker = await openWorker({ path, writer, now })
    return {
      repository: worker.users,
      close: async () => {
        await worker.close()
        await writer.close()
      },
    }
  },
})

describeBanStore({
  name: 'workers on SQLite',
  open: async now => {
    const path = join(temporaryFolder(), 'users.db')
    const writer = await openWriterHere(path, now)
    const workers = [
      await openWorker({ path, writer, now }),
      await openWorker({ path, writer, now }),
    ] as const
    onTestFinished(async () => {
      for (const { close } of workers) await close()
      await writer.close()
    })
    const [one, other] = workers
    return { store: one.bans, other: other.bans }
  },
})

describeApiKeyStore({
  name: 'a worker on SQLite',
  open: async () => {
    const path = join(temporaryFolder(), 'users.db')
    const writer = await openWriterHere(path)
    const worker = await openWorker({ path, writer })
    const database = await openSqlite({ path, now: Date.now })
    onTestFinished(async () => {
      database.close()
      await worker.close()
      await writer.close()
    })
    const writes = createWriteQueue(database, createReadView(database))
    return { store: worker.apiKeys, commands: createSqliteApiKeyStore({ database, writes }) }
  },
})

describeStorageReport({
  name: 'a worker on SQLite, and its writer',
  open: async () => {
    const databaseUrl = join(temporaryFolder(), 'users.db')
    const writer = await openWriterHere(databaseUrl)
    const worker = await openWorker({ path: databaseUrl, writer })
    onTestFinished(async () => {
      await worker.close()
      await writer.close()
    })
    const commits = async () => (await writer.report()).commits
    return { storage: worker, databaseUrl, commits, close: worker.close }
  },
})

/** A writer and workers on a new database, which are closed after the test. */
async function openTeam(options: Partial<WorkerOptions> = {}) {
  const path = join(temporaryFolder(), 'users.db')
  const writer = await openWriterHere(path)
  const workers: Awaited<ReturnType<typeof openWorker>>[] = []
  onTestFinished(async () => {
    for (const worker of workers) await worker.close()
    await writer.close()
  })
  const add = async () => {
    const worker = await openWorker({ path, writer, ...options })
    workers.push(worker)
    return worker
  }
  return { path, writer, one: await add(), other: await add() }
}

let serial = 0

function newUser() {
  serial++
  return { name: 'Ann', email: `ann${serial}@example.com`, passwordDigest: null }
}

const createMany = ({ users }: { users: UserWrites }, count: number) =>
  Array.from({ length: count }, () => users.create(newUser()))

async function codesOf(writes: readonly Promise<unknown>[]): Promise<unknown[]> {
  const results = await Promise.allSettled(writes)
  return results.map(result => (result.status === 'rejected' ? result.reason.code : 'done'))
}

/** Holds the write lock as another process does. `release` may be called twice. */
function lock(path: string): { release(): void } {
  const locker = new Database(path, { timeout: 5000 })
  locker.exec('BEGIN IMMEDIATE')
  const release = () => void locker.close()
  onTestFinished(release)
  return { release }
}

test('a read that begins after the answer to a write sees it, in every worker', async () => {
  const { one, other } = await openTeam()
  for (let round = 0; round < 50; round++) {
    const { id } = await one.users.create(newUser())
    expect(await one.users.find(id)).toBeDefined()
    expect(await other.users.find(id)).toBeDefined()
    await other.users.delete(id)
    expect(await one.users.find(id)).toBeUndefined()
  }
})

test('a read after a write sees it even if the answer arrived within the turn of an earlier read', async () => {
  const { path, one } = await openTeam()
  await one.users.create(newUser())
  const database = new Database(path, { readonly: true })
  onTestFinished(() => void database.close())
  const writing = new Database(path)
  onTestFinished(() => void writing.close())
  const view = createReadView(database)
  const reads = createSqliteUserReads({ database, view, steadyNow: Date.now })
  // Answers at once, as the first process may while this one handles other requests.
  const firstProcess = {
    isClosed: () => false,
    askAtSend: async (_kind: unknown, makeQuestion: () => unknown) => {
      makeQuestion()
      const { changes } = writing.prepare('DELETE FROM users WHERE id = 1').run()
      return JSON.stringify([{ answer: changes === 1 }])
    },
  }
  const writes = createRemoteWrites({
    firstProcess: firstProcess as unknown as Calls,
    view,
    maxWaiting: 10,
  })
  expect(await reads.find(1)).toBeDefined()
  await writes.users.delete(1)
  expect(await reads.find(1)).toBeUndefined()
})

test('every create of one address or one key in several workers at once is refused but one', async () => {
  const { one, other } = await openTeam()
  const workers = [one, other, one, other]
  const taken = await codesOf(
    workers.map(({ users }) => users.create({ ...newUser(), email: 'same@example.com' })),
  )
  expect(taken.sort()).toEqual(['done', 'email_taken', 'email_taken', 'email_taken'])
  const claim = { keyHash: Buffer.alloc(32, 255), fingerprint: 'same' }
  const claimed = await codesOf(workers.map(({ users }) => users.create(newUser(), claim)))
  const inUse = 'idempotency_key_in_use'
  expect(claimed.sort()).toEqual(['done', inUse, inUse, inUse])
  expect(await other.users.findIdempotentCreate(claim.keyHash)).toMatchObject({
    fingerprint: 'same',
  })
})

test('a write beyond the limit of its worker is refused, and other workers may still write', async () => {
  const { path, one, other } = await openTeam({ maxWaitingWrites: 5 })
  const { release } = lock(path)
  const writes = [...createMany(one, 7), ...createMany(other, 5)]
  const refused = await Promise.all(writes.slice(5, 7).map(write => write.catch(error => error)))
  expect(refused.map(({ code }) => code)).toEqual(['overloaded', 'overloaded'])
  release()
  // On a busy machine they may have waited too long for the lock.
  const codes = await codesOf([...writes.slice(0, 5), ...writes.slice(7)])
  expect(codes).not.toContain('overloaded')
  expect(await codesOf(createMany(one, 5))).toEqual(Array(5).fill('done'))
})

test('while another process holds the lock, writes are refused with the cause and reads are done', async () => {
  const { path, one } = await openTeam()
  const { id } = await one.users.create(newUser())
  const { release } = lock(path)
  const refused = one.users.create(newUser()).catch(error => error)
  expect(await one.users.find(id)).toBeDefined()
  expect(await refused).toMatchObject({
    code: 'storage_unavailable',
    cause: { name: 'SqliteError', code: 'SQLITE_BUSY', message: 'database is locked' },
  })
  release()
  expect(await one.users.delete(id)).toBe(true)
})

test('a write whose answer does not come is outcome_unknown, and later ones are storage_unavailable', async () => {
  const { path, one, other } = await openTeam()
  const { release } = lock(path)
  const waiting = codesOf([...createMany(one, 2), one.users.delete(1)])
  one.lose()
  expect(await waiting).toEqual(Array(3).fill('outcome_unknown'))
  release()
  const later = [one.users.update(1, { name: 'Bob' }), one.bans.lift({}), one.bans.revision()]
  expect(await codesOf(later)).toEqual(Array(3).fill('storage_unavailable'))
  expect(await one.users.find(1)).toBeUndefined()
  expect(await codesOf(createMany(other, 1))).toEqual(['done'])
})

test('close of a worker finishes its writes and rejects later ones, and others go on', async () => {
  const { one, other } = await openTeam()
  const created = createMany(one, 3)
  const closed = one.close()
  expect(await codesOf(createMany(one, 1))).toEqual(['shutting_down'])
  await closed
  expect(await codesOf(created)).toEqual(Array(3).fill('done'))
  await expect(one.users.find(1)).rejects.toMatchObject({ code: 'shutting_down' })
  expect(await other.users.find(3)).toBeDefined()
})

test('close of the writer finishes the writes that it has', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const writer = await openWriterHere(path)
  const worker = await openWorker({ path, writer })
  const created = createMany(worker, 300)
  // Each has been sent, because this answer comes after them.
  await worker.bans.revision()
  await writer.close()
  expect(await codesOf(created)).toEqual(Array(300).fill('done'))
  await worker.close()
})

test('a worker cannot open a database that no writer has opened', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const { worker, end } = connectCalls()
  onTestFinished(end)
  const options = { path, firstProcess: worker, now: Date.now, steadyNow: Date.now }
  const open = () => openWorkerStorage({ ...options, maxWaitingWrites: 10 })
  await expect(open()).rejects.toThrow('there is no such file')
  new Database(path).exec('CREATE TABLE users (id)').close()
  await expect(open()).rejects.toThrow('it is the database of another program')
  await (await openWriterHere(join(path, '..', 'older.db'))).close()
  new Database(join(path, '..', 'older.db'))
    .exec('DELETE FROM schema_migrations WHERE version > 1')
    .close()
  await expect(
    openWorkerStorage({ ...options, path: join(path, '..', 'older.db'), maxWaitingWrites: 10 }),
  ).rejects.toThrow('its schema is that of an older release')
})

test('a writer refuses a database in memory, because workers could not reach it', async () => {
  await expect(openWriterHere(':memory:')).rejects.toMatchObject({
    name: 'UnusableDatabase',
    message: expect.stringContaining('in the memory of the service'),
  })
})

test('all workers have the same signing key', async () => {
  const { one, other } = await openTeam()
  const key = await one.signingKey('cursor')
  expect(key).toHaveLength(32)
  expect(await other.signingKey('cursor')).toEqual(key)
})

test('the revision of bans differs after another program has changed them', async () => {
  const { path, one } = await openTeam()
  const before = await one.bans.revision()
  const program = new Database(path)
  program.exec(`INSERT INTO bans VALUES ('login', 'ann', 9e15, 1)`)
  program.close()
  const after = await one.bans.revision()
  expect(after).not.toBe(before)
  expect(await one.bans.revision()).toBe(after)
})

test('report of the writer has the commits of all workers, and each worker has its own waiting writes', async () => {
  const { path, writer, one, other } = await openTeam()
  expect(await writer.report()).toMatchObject({ commits: { writes: { sum: 0 } } })
  await Promise.all([...createMany(one, 3), ...createMany(other, 4)])
  const { commits, fileBytes } = await writer.report()
  expect(commits.writes.sum).toBe(7)
  expect(fileBytes).toEqual({ database: statSync(path).size, wal: statSync(`${path}-wal`).size })
  const { release } = lock(path)
  const writes = Promise.allSettled([...createMany(one, 3), ...createMany(other, 2)])
  expect(await one.report()).toEqual({ engine: 'sqlite', waitingWrites: 3, fileBytes })
  expect(await other.report()).toEqual({ engine: 'sqlite', waitingWrites: 2, fileBytes })
  release()
  await writes
  expect((await one.report()).waitingWrites).toBe(0)
})

test('report of a writer that does not answer, or is gone, has the commits of its last report', async () => {
  const { path, writer, one } = await openTeam()
  const { worker: calls, first: silent, end } = connectCalls()
  onTestFinished(end)
  let isSilent = false
  let asked = 0
  silent.handle(OPEN_DATABASE, () => ({}))
  silent.handle(REPORT_STORAGE, async () => {
    asked++
    return isSilent ? new Promise(() => {}) : writer.calls.ask(REPORT_STORAGE, undefined)
  })
  const { report } = await connectWriter(calls, { path, steadyNow: Date.now })
  await Promise.all(createMany(one, 3))
  const last = await report()
  expect(last.commits.writes.sum).toBe(3)
  isSilent = true
  await Promise.all(createMany(one, 2))
  expect((await report()).commits).toEqual(last.commits)
  expect((await report()).commits).toEqual(last.commits)
  // Reports share a question that has no answer yet.
  expect(asked).toBe(2)
  calls.close(new Error('the writer is gone'))
  expect((await report()).commits).toEqual(last.commits)
  expect((await report()).commits).toEqual(last.commits)
})
