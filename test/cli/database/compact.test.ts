import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { copyDatabase, makeDatabase } from '../../faults/databases.ts'
import { newUserBody } from '../../support/builders.ts'
import { forgetInIndex, overwritePages } from '../../support/damage.ts'
import { emailsIn, execute, filesOf, modeOf } from '../../support/databases.ts'
import { createFailingDisk, whyNoFailingDisk } from '../../support/failing-disk.ts'
import { createRandom, inForm } from '../../support/faults.ts'
import { ask } from '../../support/json-requests.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { canRunAsNobody } from '../../support/other-user.ts'
import { run, spawnMain, spawnService } from '../../support/spawn-service.ts'
import { owner } from '../../support/unprivileged-user.ts'
import { until } from '../../support/until.ts'

const USERS = 3000

/** Enough to make a compaction slow. */
const MANY_USERS = 60_000

const LONG_MS = 1_200_000

const KILLS = inForm({ short: 6, long: 80 })

const RACES = inForm({ short: 3, long: 40 })

const IN_USE = /^DATABASE_URL was "[^"]+": a process has it open: stop the service first\n$/

interface Place {
  readonly cwd: string
  readonly path: string
  /** Of its users. */
  readonly emails: readonly string[]
}

/** A database after two thirds of its users were deleted. */
function placeWithFreeSpace({ users = USERS, isInWal = true } = {}): Place {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  makeDatabase(path, { users })
  execute(path, `PRAGMA journal_mode = ${isInWal ? 'WAL' : 'DELETE'}`)
  execute(path, 'DELETE FROM users WHERE id % 3 > 0')
  const emails = emailsIn(path)
  // Removes the files beside it that a read-only connection leaves.
  execute(path, 'SELECT count(*) FROM users')
  expect(filesOf(path)).toEqual(['users.db'])
  return { cwd, path, emails }
}

function compact({ cwd }: { cwd: string }, ...args: string[]) {
  return run({ cwd, args: ['compact', ...args] })
}

/** By the versions in the header: https://www.sqlite.org/fileformat.html#file_format_version_numbers */
function isInWal(path: string): boolean {
  return readFileSync(path)[18] === 2
}

async function expectSound({ cwd, path, emails }: Place): Promise<void> {
  expect((await run({ cwd, args: ['check'] })).stdout).toBe('./data/users.db: sound\n')
  expect(emailsIn(path)).toEqual(emails)
}

describe('compact', () => {
  test.each([{ mode: 'WAL' }, { mode: 'DELETE' }])(
    'returns free space in journal mode $mode, and keeps the file, its mode and all users',
    async ({ mode }) => {
      const place = placeWithFreeSpace({ isInWal: mode === 'WAL' })
      const { path } = place
      chmodSync(path, 0o640)
      const before = statSync(path)
      const { code, stdout, stderr } = await compact(place)
      const after = statSync(path)
      const [from, to] = [before, after].map(({ size }) => (size / 1e6).toFixed(1))
      expect({ code, stdout, stderr }).toEqual({
        code: 0,
        stdout: `./data/users.db: ${from} MB before, ${to} MB now\n`,
        stderr: '',
      })
      expect(after.size).toBeLessThan(before.size * 0.5)
      expect([after.ino, modeOf(path)]).toEqual([before.ino, 0o640])
      expect(isInWal(path)).toBe(mode === 'WAL')
      expect(filesOf(path)).toEqual(['users.db'])
      await expectSound(place)
    },
  )

  test('--json prints the sizes for programs, and a second time changes nothing', async () => {
    const place = placeWithFreeSpace()
    const before = statSync(place.path).size
    const printed = async () => JSON.parse((await compact(place, '--json')).stdout)
    const { bytes_after: after, ...others } = await printed()
    expect(others).toEqual({ database: './data/users.db', bytes_before: before })
    expect(after).toBe(statSync(place.path).size)
    expect(await printed()).toEqual({ ...others, bytes_before: after, bytes_after: after })
  })

  test('after a killed service keeps all acknowledged users, and no id is used again', async () => {
    const { cwd, path } = placeWithFreeSpace()
    const first = await spawnService({ cwd })
    const { body } = await ask(first, 'POST /users', newUserBody({ email: 'in-wal@x.co' }))
    await ask(first, `DELETE /users/${body.id}`)
    await ask(first, 'POST /users', newUserBody({ email: 'last@x.co' }))
    first.process.kill('SIGKILL')
    await first.exited
    const bytes = statSync(path).size + statSync(`${path}-wal`).size
    const { code, stdout } = await compact({ cwd }, '--json')
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ bytes_before: bytes })
    const service = await spawnService({ cwd })
    const { body: next } = await ask(service, 'POST /users', newUserBody())
    expect(next.id).toBe(body.id + 2)
    expect(emailsIn(path)).toContain('last@x.co')
  })

  test('fails while a service runs, also an idle one, and that continues', async () => {
    const place = placeWithFreeSpace()
    const service = await spawnService({ cwd: place.cwd })
    const { code, stdout, stderr } = await compact(place)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(IN_USE)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
    service.process.kill('SIGTERM')
    await service.exited
    expect((await compact(place)).code).toBe(0)
  })

  test.each([
    { what: 'reads', sql: 'BEGIN; SELECT count(*) FROM users' },
    { what: 'writes', sql: 'BEGIN IMMEDIATE' },
    { what: 'locks it', sql: 'BEGIN EXCLUSIVE' },
    { what: 'reads, not in WAL', sql: 'BEGIN; SELECT count(*) FROM users', isInWal: false },
    { what: 'writes, not in WAL', sql: 'BEGIN IMMEDIATE', isInWal: false },
    { what: 'locks it, not in WAL', sql: 'BEGIN EXCLUSIVE', isInWal: false },
  ])('fails while another program $what', async ({ sql, ...made }) => {
    const place = placeWithFreeSpace(made)
    const before = readFileSync(place.path)
    const other = new Database(place.path)
    onTestFinished(() => {
      other.close()
    })
    other.exec(sql)
    const { code, stdout, stderr } = await compact(place)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(IN_USE)
    expect(readFileSync(place.path).equals(before)).toBe(true)
  })

  test(
    'and a start at the same time leave a service with all users',
    async () => {
      const random = createRandom()
      for (let round = 0; round < RACES; round++) {
        const place = placeWithFreeSpace()
        const compacting = spawnMain({ cwd: place.cwd, args: ['compact'] })
        await sleep(random() * 400)
        const service = await spawnService({ cwd: place.cwd })
        const { code, stderr } = await compacting.exited
        if (code !== 0) expect(stderr).toMatch(IN_USE)
        const { headers } = await ask(service, 'GET /users?count=true')
        expect(headers.get('X-Total-Count')).toBe(`${place.emails.length}`)
        expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
        service.process.kill('SIGTERM')
        await service.exited
        expect((await run({ cwd: place.cwd, args: ['check'] })).stdout).toContain('sound')
      }
    },
    LONG_MS,
  )

  test('twice at once succeeds once, or one after the other', async () => {
    const place = placeWithFreeSpace({ users: MANY_USERS })
    const both = await Promise.all([compact(place), compact(place)])
    expect(both.some(({ code }) => code === 0)).toBe(true)
    for (const { code, stderr } of both) if (code !== 0) expect(stderr).toMatch(IN_USE)
    await expectSound(place)
  })

  test.each<{ why: string; prepare?: (place: Place) => unknown; url?: string; line: RegExp }>([
    { why: 'no file', url: './none.db', line: /: there is no such file$/ },
    { why: 'a folder', url: './data', line: /^DATABASE_URL was ".\/data": .*\(EISDIR\)$/ },
    {
      why: 'a database in memory',
      url: ':memory:',
      line: /: such a database is in the memory of the service, and no other process can reach it$/,
    },
    {
      why: 'a text',
      prepare: ({ path }) => writeFileSync(path, 'to do: nothing\n'),
      line: /: it is not a SQLite database$/,
    },
    {
      why: 'an empty file',
      prepare: ({ path }) => writeFileSync(path, ''),
      line: /: it is empty$/,
    },
    {
      why: 'the database of another program',
      prepare: ({ path }) => execute(path, 'DROP TABLE schema_migrations'),
      line: /: it is the database of another program$/,
    },
    {
      why: 'a newer schema',
      prepare: ({ path }) =>
        execute(path, `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`),
      line: /: its schema version 99 is from a newer release/,
    },
    {
      why: 'damage',
      prepare: ({ path }) => overwritePages(path, 'garbage ', { from: 20, to: 22 }),
      line: /: it is damaged: restore it from a backup/,
    },
    {
      why: 'an index that lacks rows, which VACUUM would not notice',
      prepare: ({ path }) => forgetInIndex(path),
      line: /: it is damaged: restore it from a backup/,
    },
  ])('with $why fails with one line, and changes nothing', async refusal => {
    const { prepare, url = './data/users.db', line } = refusal
    const place = placeWithFreeSpace()
    prepare?.(place)
    const before = readFileSync(place.path)
    const env = { DATABASE_URL: url }
    const { code, stdout, stderr } = await run({ cwd: place.cwd, args: ['compact'], env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^[^\n]+\n$/)
    expect(stderr.trimEnd()).toMatch(line)
    expect(readFileSync(place.path).equals(before)).toBe(true)
    expect(filesOf(place.path)).toEqual(['users.db'])
    expect(filesOf(join(place.cwd, 'none.db'))).toEqual([])
  })

  test.each(['SIGINT', 'SIGTERM'] as const)('ended by %s leaves all users', async signal => {
    const place = placeWithFreeSpace({ users: MANY_USERS })
    const child = spawnMain({ cwd: place.cwd, args: ['compact'] })
    await atWork(place, child.process)
    child.process.kill(signal)
    const { code, stderr } = await child.exited
    // It may have ended before the signal reached it.
    expect([null, 0]).toContain(code)
    expect(stderr).toBe('')
    await expectSound(place)
  })

  test(
    'that is killed leaves a sound database with all users, and can be repeated',
    async () => {
      const random = createRandom()
      const prepared = [true, false].map(isInWal => {
        return placeWithFreeSpace({ users: MANY_USERS, isInWal })
      })
      for (let round = 0; round < KILLS; round++) {
        const cwd = temporaryFolder()
        const { path, emails } = prepared[round % prepared.length] as Place
        const place = { cwd, path: join(cwd, 'data', 'users.db'), emails }
        copyDatabase(path, place.path)
        const bytes = statSync(place.path).size
        const child = spawnMain({ cwd, args: ['compact'] })
        await atWork(place, child.process)
        await sleep(random() * 100)
        child.process.kill('SIGKILL')
        await child.exited
        await expectSound(place)
        expect((await compact(place)).code).toBe(0)
        expect(statSync(place.path).size).toBeLessThan(bytes * 0.5)
        await expectSound(place)
      }
    },
    LONG_MS,
  )
})

const reason = whyNoFailingDisk()
if (reason !== undefined)
  console.log(`the disks of test/cli/database/compact.test.ts are skipped: ${reason}`)

/** The number of writes of a compaction of such a database. */
async function countWrites(made: { isInWal: boolean }): Promise<number> {
  const { cwd } = placeWithFreeSpace(made)
  const disk = createFailingDisk(join(cwd, 'data'))
  const passes = 1_000_000
  disk.fail({ writes: 'ENOSPC', passes })
  expect((await run({ cwd, args: ['compact'], env: disk.env })).code).toBe(0)
  return passes - disk.passesLeft()
}

describe.skipIf(reason !== undefined)('compact on a disk', () => {
  test.each([{ isInWal: true }, { isInWal: false }])(
    'that becomes full fails with one line, and keeps the database sound; in WAL: $isInWal',
    async made => {
      const writes = await countWrites(made)
      // The first, the first of the new content, in the middle of it, and the last, into the file itself.
      for (const passes of [0, 2, Math.floor(writes / 3), Math.floor(writes * 0.6), writes - 1]) {
        const place = placeWithFreeSpace(made)
        const { cwd } = place
        const disk = createFailingDisk(join(cwd, 'data'))
        disk.fail({ writes: 'ENOSPC', passes })
        const { code, stdout, stderr } = await run({ cwd, args: ['compact'], env: disk.env })
        expect({ passes, code, stdout }).toEqual({ passes, code: 1, stdout: '' })
        expect(stderr).toMatch(/^DATABASE_URL was [^\n]+: its disk is full: [^\n]+\n$/)
        expect(disk.failedCalls()).toBeGreaterThan(0)
        await expectSound(place)
        expect((await compact(place)).code).toBe(0)
        await expectSound(place)
      }
    },
    LONG_MS,
  )
})

test.skipIf(!canRunAsNobody)('compact without write permission fails with one line', async () => {
  const place = placeWithFreeSpace()
  const { uid = 0, gid = 0 } = owner
  chownSync(place.cwd, uid, gid)
  chmodSync(place.path, 0o444)
  chmodSync(join(place.cwd, 'data'), 0o555)
  const { code, stderr } = await run({ cwd: place.cwd, args: ['compact'], ...owner })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^DATABASE_URL was [^\n]+: it cannot be written: [^\n]+\n$/)
})

/** Resolves once the database is locked and changed, or the command has ended. */
async function atWork({ path }: Place, command: { exitCode: number | null }): Promise<void> {
  const isAtWork = () =>
    filesOf(path).some(name => /-(?:wal|journal)$/.test(name)) || command.exitCode !== null
  await until(isAtWork, 1)
}
