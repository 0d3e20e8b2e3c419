import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, linkSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { copyDatabase, makeDatabase } from '../faults/databases.ts'
import { newUserBody } from '../support/builders.ts'
import { emailsIn, execute, filesOf } from '../support/databases.ts'
import { createRandom, inForm } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, signalled, spawnMain, spawnService } from '../support/spawn-service.ts'
import { countIn, folderWith, manyRows, ndjson, rejectsIn, usersIn } from '../support/transfer.ts'
import { until } from '../support/until.ts'

const COMMITTER = fileURLToPath(new URL('../support/committer.mjs', import.meta.url))

/** Enough to make a command so slow that a signal meets it. */
const MANY = 60_000

const LONG_MS = 1_200_000

const RACES = inForm({ short: 3, long: 40 })

const KILLS = inForm({ short: 4, long: 60 })

interface Place {
  readonly cwd: string
  readonly path: string
  /** A backup. */
  readonly file: string
}

/** A database, and a backup of another one if `backup` has its number of users. */
function place({ users = MANY, backup }: { users?: number; backup?: number } = {}): Place {
  const cwd = temporaryFolder()
  const made = { cwd, path: join(cwd, 'data', 'users.db'), file: join(cwd, 'copy.db') }
  mkdirSync(join(cwd, 'data'))
  makeDatabase(made.path, { users })
  if (backup !== undefined) makeDatabase(made.file, { users: backup })
  return made
}

/** A database after two thirds of its users were deleted. */
function placeWithFreeSpace({ users = MANY, mode = 'WAL' } = {}): Place {
  const made = place({ users })
  execute(made.path, `PRAGMA journal_mode = ${mode}; DELETE FROM users WHERE id % 3 > 0`)
  return made
}

async function expectSound(cwd: string): Promise<void> {
  expect(await run({ cwd, args: ['check'] })).toMatchObject({
    code: 0,
    stdout: './data/users.db: sound\n',
  })
}

describe('import that is interrupted', () => {
  const ROWS = 20_000

  const REJECTS = ['--rejects', 'rejects.ndjson']

  /** Every tenth row is rejected, to test the rejects file as well. */
  const TEXT = ndjson(
    manyRows(ROWS).map((row, index) => (index % 10 === 9 ? { name: 'Nobody' } : row)),
  )

  test.each([
    ['SIGKILL', 1, null, /^$/],
    ['SIGKILL', 2500, null, /^$/],
    ['SIGKILL', 7777, null, /^$/],
    ['SIGINT', 1, 130, /^stopped early: [\d,]+ rows, /],
    ['SIGTERM', 1, 143, /^stopped early: [\d,]+ rows, /],
  ] as const)('by %s after %i rows continues there', async (signal, atLeast, code, stdout) => {
    // Repeated if the import had ended before the signal.
    const { cwd, ...finished } = await until(async () => {
      const cwd = folderWith(TEXT)
      const args = ['import', 'users.ndjson', ...REJECTS]
      const begun = () => countIn(cwd) >= atLeast
      const ended = await signalled(signal, { cwd, args, begun })
      return countIn(cwd) < 18_000 && { cwd, ...ended }
    })
    expect(finished).toMatchObject({ code, stdout: expect.stringMatching(stdout) })
    const resumed = await run({ cwd, args: ['import', 'users.ndjson', ...REJECTS, '--resume'] })
    expect(resumed.code).toBe(3)
    expect(resumed.stdout).toMatch(/^20,000 rows, 18,000 created, 2,000 rejected; /)
    const kept = manyRows(ROWS).filter((_, index) => index % 10 !== 9)
    expect(usersIn(cwd).map(({ email }) => email)).toEqual(kept.map(({ email }) => email))
    const tenths = Array.from({ length: ROWS / 10 }, (_, index) => 10 * (index + 1))
    expect(rejectsIn(cwd).map(({ line }) => line)).toEqual(tenths)
  })
})

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('migrate ends by %s with %i, and goes on where it was', async (signal, code) => {
  const { cwd, ended } = await until(async () => {
    const cwd = temporaryFolder()
    const path = join(cwd, 'data', 'users.db')
    makeDatabase(path, { users: MANY, migrations: 12 })
    const begun = () => filesOf(path).some(name => name.endsWith('-wal'))
    const ended = await signalled(signal, { cwd, args: ['migrate'], begun })
    // A signal that comes before it is awaited, or after the work, says nothing.
    return ended.code !== 0 && ended.code !== null && { cwd, ended }
  })
  expect(ended).toMatchObject({ code, stdout: '' })
  expect(await run({ cwd, args: ['migrate'] })).toMatchObject({ code: 0 })
  await expectSound(cwd)
})

describe.each(['SIGINT', 'SIGTERM'] as const)('%s', signal => {
  test('leaves an earlier backup, and the next one removes the rest', async () => {
    const { cwd, file, ...finished } = await until(async () => {
      const { cwd, file } = place()
      writeFileSync(file, 'earlier')
      const begun = () => filesOf(file).length > 1
      const ended = await signalled(signal, { cwd, args: ['backup', 'copy.db'], begun })
      return ended.code !== 0 && { cwd, file, ...ended }
    })
    expect(finished).toEqual({ code: null, stdout: '', stderr: '' })
    expect(statSync(file).size).toBe('earlier'.length)
    expect((await run({ cwd, args: ['backup', 'copy.db'] })).code).toBe(0)
    expect(filesOf(file)).toEqual(['copy.db'])
  })

  test('leaves the database of a restore, and the next one succeeds', async () => {
    const { cwd, path, ...finished } = await until(async () => {
      const { cwd, path } = place({ users: 7, backup: MANY })
      const begun = () => filesOf(path).length > 1
      const ended = await signalled(signal, { cwd, args: ['restore', 'copy.db'], begun })
      return ended.code !== 0 && { cwd, path, ...ended }
    })
    expect(finished).toEqual({ code: null, stdout: '', stderr: '' })
    expect([7, MANY]).toContain(emailsIn(path).length)
    expect((await run({ cwd, args: ['restore', 'copy.db'] })).code).toBe(0)
    expect(emailsIn(path)).toHaveLength(MANY)
    expect(filesOf(path).filter(name => name.includes('.partial'))).toEqual([])
  })

  test('leaves all users of a database that is compacted', async () => {
    const { cwd, path } = placeWithFreeSpace()
    const { code, stderr } = await signalled(signal, {
      ...{ cwd, args: ['compact'] },
      begun: () => isAtWork(path),
    })
    // It may have ended before the signal reached it.
    expect([null, 0]).toContain(code)
    expect(stderr).toBe('')
    await expectSound(cwd)
    expect(emailsIn(path)).toHaveLength(MANY / 3)
  })
})

/** Whether a database is locked and changed. */
function isAtWork(path: string): boolean {
  return filesOf(path).some(name => /-(?:wal|journal)$/.test(name))
}

describe('kill -9', () => {
  test('of a backup at any moment leaves no partial file under its name, and the next one succeeds', async () => {
    const { cwd, file } = place()
    for (const delayMs of [0, 15, 60, 150]) {
      const child = spawnMain({ cwd, args: ['backup', 'copy.db'] })
      await until(() => filesOf(file).length > 0 || child.process.exitCode !== null, 1)
      await sleep(delayMs)
      child.process.kill('SIGKILL')
      await child.exited
      if (existsSync(file)) expect(emailsIn(file)).toHaveLength(MANY)
    }
    expect((await run({ cwd, args: ['backup', 'copy.db'] })).code).toBe(0)
    expect(emailsIn(file)).toHaveLength(MANY)
    expect(filesOf(file)).toEqual(['copy.db'])
  })

  test(
    'of a restore leaves all of the old database or all of the new one',
    async () => {
      const random = createRandom()
      const prepared = place({ backup: MANY + 1 })
      for (let round = 0; round < KILLS; round++) {
        const cwd = temporaryFolder()
        const path = join(cwd, 'data', 'users.db')
        copyDatabase(prepared.path, path)
        const child = spawnMain({ cwd, args: ['restore', prepared.file] })
        // The journal exists while the content is replaced.
        const isReplacing = () => filesOf(path).includes('users.db-journal')
        await until(() => isReplacing() || child.process.exitCode !== null, 1)
        await sleep(random() * 250)
        child.process.kill('SIGKILL')
        await child.exited
        await expectSound(cwd)
        expect([MANY, MANY + 1]).toContain(emailsIn(path).length)
        expect((await run({ cwd, args: ['restore', prepared.file] })).code).toBe(0)
        expect(emailsIn(path)).toHaveLength(MANY + 1)
        expect(filesOf(path).filter(name => name.includes('.partial'))).toEqual([])
      }
    },
    LONG_MS,
  )

  test(
    'of a compaction leaves a sound database with all users, and it can be repeated',
    async () => {
      const random = createRandom()
      const prepared = ['WAL', 'DELETE'].map(mode => placeWithFreeSpace({ mode }).path)
      for (let round = 0; round < KILLS; round++) {
        const cwd = temporaryFolder()
        const path = join(cwd, 'data', 'users.db')
        copyDatabase(prepared[round % prepared.length] ?? '', path)
        const bytes = statSync(path).size
        const child = spawnMain({ cwd, args: ['compact'] })
        await until(() => isAtWork(path) || child.process.exitCode !== null, 1)
        await sleep(random() * 100)
        child.process.kill('SIGKILL')
        await child.exited
        await expectSound(cwd)
        expect((await run({ cwd, args: ['compact'] })).code).toBe(0)
        expect(statSync(path).size).toBeLessThan(bytes * 0.5)
        await expectSound(cwd)
        expect(emailsIn(path)).toHaveLength(MANY / 3)
      }
    },
    LONG_MS,
  )
})

describe('after kill -9 of a service', () => {
  /** A database whose last changes are only in its WAL: the creation of two users and the deletion of the first. */
  async function placeAfterKill(): Promise<Place> {
    const made = placeWithFreeSpace({ users: 3000 })
    const service = await spawnService(made)
    const { body } = await ask(service, 'POST /users', newUserBody({ email: 'gone@x.co' }))
    await ask(service, `DELETE /users/${body.id}`)
    await ask(service, 'POST /users', newUserBody({ email: 'in-wal@x.co' }))
    service.process.kill('SIGKILL')
    await service.exited
    return made
  }

  test('backup, restore and compact keep what is only in the WAL, and no id is used again', async () => {
    const { cwd, path, file } = await placeAfterKill()
    const bytes = statSync(path).size + statSync(`${path}-wal`).size
    expect((await run({ cwd, args: ['backup', 'copy.db'] })).code).toBe(0)
    expect(emailsIn(file).at(-1)).toBe('in-wal@x.co')

    const again = temporaryFolder()
    copyDatabase(path, join(again, 'data', 'users.db'))
    makeDatabase(join(again, 'other.db'), { users: 5 })
    expect((await run({ cwd: again, args: ['restore', 'other.db'] })).code).toBe(0)
    const names = filesOf(join(again, 'data', 'users.db'))
    const kept = names.find(name => name.includes('.replaced-')) ?? ''
    expect(names).toHaveLength(2)
    expect(emailsIn(join(again, 'data', 'users.db'))).toHaveLength(5)
    expect(emailsIn(join(again, 'data', kept)).at(-1)).toBe('in-wal@x.co')

    const { code, stdout } = await run({ cwd, args: ['compact', '--json'] })
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ bytes_before: bytes })
    const service = await spawnService({ cwd })
    expect((await ask(service, 'POST /users', newUserBody())).body.id).toBe(3003)
    expect(emailsIn(path)).toContain('in-wal@x.co')
  })

  test('no acknowledged write is lost to import and export of the WAL, also through a hard link', async () => {
    const { cwd, path } = place({ users: 1 })
    writeFileSync(join(cwd, 'users.ndjson'), '{}\n')
    const service = await spawnService({ cwd })
    for (let user = 0; user < 5; user++) {
      expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
    }
    linkSync(`${path}-wal`, join(cwd, 'again.ndjson'))
    for (const file of ['again.ndjson', `${path}-wal`]) {
      const importing = ['import', 'users.ndjson', '--restart', '--rejects', file]
      expect((await run({ cwd, args: importing })).code).toBe(2)
      expect((await run({ cwd, args: ['export', file, '--format', 'csv'] })).code).toBe(2)
    }
    service.process.kill('SIGKILL')
    await service.exited
    expect(emailsIn(path)).toHaveLength(6)
  })
})

describe('at once', () => {
  const IN_USE = /^DATABASE_URL was "[^"]+": a process has it open: stop the service first\n$/

  test.each([
    ['restore', ['restore', 'copy.db'], 900, '4000'],
    ['compact', ['compact'], 400, '2000'],
  ] as const)(
    '%s and a start leave a service that serves all of one database',
    async (_name, args, withinMs, count) => {
      const random = createRandom()
      for (let round = 0; round < RACES; round++) {
        const { cwd } = place({ users: 2000, backup: 4000 })
        const command = spawnMain({ cwd, args })
        await sleep(random() * withinMs)
        const service = await spawnService({ cwd })
        const { code, stderr } = await command.exited
        const { headers } = await ask(service, 'GET /users?count=true')
        expect([code, headers.get('X-Total-Count')]).toEqual(code === 0 ? [0, count] : [1, '2000'])
        if (code !== 0) expect(stderr).toMatch(IN_USE)
        expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
        service.process.kill('SIGTERM')
        await service.exited
        expect((await run({ cwd, args: ['check'] })).stdout).toContain('sound')
      }
    },
    LONG_MS,
  )

  test('two compactions succeed once, or one after the other', async () => {
    const { cwd, path } = placeWithFreeSpace()
    const both = await Promise.all([1, 2].map(() => run({ cwd, args: ['compact'] })))
    expect(both.some(({ code }) => code === 0)).toBe(true)
    for (const { code, stderr } of both) if (code !== 0) expect(stderr).toMatch(IN_USE)
    await expectSound(cwd)
    expect(emailsIn(path)).toHaveLength(MANY / 3)
  })

  test('a backup ends although another process commits all the time', async () => {
    const { cwd, path, file } = place()
    const writer = fork(COMMITTER, [path])
    onTestFinished(() => {
      writer.kill('SIGKILL')
    })
    await once(writer, 'message')
    expect((await run({ cwd, args: ['backup', 'copy.db'] })).code).toBe(0)
    expect(writer.exitCode).toBe(null)
    expect(emailsIn(file)).toHaveLength(MANY)
  })
})
