import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openPlace } from '../support/command-place.ts'
import { copiedContent, makeCopySource } from '../support/copy-databases.ts'
import { copyDatabase, emailsIn, execute, filesOf, makeDatabase } from '../support/databases.ts'
import { createRandom, inForm } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, type SpawnOptions, spawnMain, spawnService } from '../support/spawn-service.ts'
import { countIn, folderWith, manyRows, ndjson, rejectsIn } from '../support/transfer.ts'
import { until } from '../support/until.ts'

/** Enough to make a command so slow that a signal meets it. */
const MANY = 60_000

const LONG_MS = 1_200_000

const RACES = inForm({ short: 3, long: 40 })

const KILLS = inForm({ short: 4, long: 60 })

/** A database, and the place of a backup, which is one of another database if `backup` has its number of users. */
function place({ users = MANY, backup }: { users?: number; backup?: number } = {}) {
  const made = openPlace({ users })
  if (backup !== undefined) makeDatabase(made.file, { users: backup })
  return made
}

/** A database after two thirds of its users were deleted. */
function placeWithFreeSpace({ users = MANY, mode = 'WAL' } = {}) {
  const made = place({ users })
  execute(made.path, `PRAGMA journal_mode = ${mode}; DELETE FROM users WHERE id % 3 > 0`)
  return made
}

/** Sends a command a signal some time after it has `begun`. On a busy machine it may have ended before. */
async function signalled(
  signal: NodeJS.Signals,
  options: SpawnOptions,
  begun: () => boolean,
  delayMs = 0,
) {
  const child = spawnMain(options)
  await until(() => begun() || child.process.exitCode !== null, 1)
  await sleep(delayMs)
  return child.end(signal)
}

async function expectSound(cwd: string): Promise<void> {
  const stdout = './data/users.db: sound\n'
  expect(await run({ cwd, args: ['check'] })).toMatchObject({ code: 0, stdout })
}

/** The content of a file with these rows, each on its line. */
const CONTENTS = {
  'users.ndjson': ndjson,
  'users.json': (rows: unknown[]) => `[${rows.map(row => JSON.stringify(row)).join(',\n')}]`,
  'users.json.gz': (rows: unknown[]) => gzipSync(`{"users":${CONTENTS['users.json'](rows)}}`),
}

test.each([
  ['users.ndjson', 'SIGKILL', 1, null, /^$/],
  ['users.ndjson', 'SIGKILL', 7777, null, /^$/],
  ['users.ndjson', 'SIGINT', 1, 130, /^stopped early: [\d,]+ rows, /],
  ['users.ndjson', 'SIGTERM', 1, 143, /^stopped early: [\d,]+ rows, /],
  ['users.json', 'SIGKILL', 1, null, /^$/],
  ['users.json.gz', 'SIGKILL', 7777, null, /^$/],
] as const)(
  'import of %s that ends by %s after %i rows continues there',
  async (file, signal, atLeast, code, stdout) => {
    const args = ['import', file, '--rejects', 'rejects.ndjson']
    // Every tenth row is rejected, to test the rejects file as well.
    const isKept = (_: unknown, index: number) => index % 10 !== 9
    const rows = manyRows(20_000)
    const content = CONTENTS[file](
      rows.map((row, index) => (isKept(row, index) ? row : { name: 'Nobody' })),
    )
    // Repeated if the import had ended before the signal.
    const { cwd, ...finished } = await until(async () => {
      const cwd = folderWith(content, file)
      const ended = await signalled(signal, { cwd, args }, () => countIn(cwd) >= atLeast)
      return countIn(cwd) < 18_000 && { cwd, ...ended }
    })
    expect(finished).toMatchObject({ code, stdout: expect.stringMatching(stdout) })
    const resumed = await run({ cwd, args: [...args, '--resume'] })
    expect(resumed.code).toBe(3)
    expect(resumed.stdout).toMatch(/^20,000 rows, 18,000 created, 2,000 rejected; /)
    expect(emailsIn(join(cwd, 'data', 'users.db'))).toEqual(
      rows.filter(isKept).map(({ email }) => email),
    )
    const tenths = Array.from({ length: 2000 }, (_, index) => 10 * (index + 1))
    expect(rejectsIn(cwd).map(({ line }) => line)).toEqual(tenths)
  },
)

test.each([
  ['SIGINT', 130, 'interrupted: run the same command again to start over\n'],
  ['SIGKILL', null, ''],
] as const)(
  'copy starts over after %s, and no service starts before it is complete',
  async (signal, code, stderr) => {
    const cwd = temporaryFolder()
    const [from, to] = [join(cwd, 'from.db'), join(cwd, 'to.db')]
    await makeCopySource(from, MANY / 2)
    const args = ['copy', '--from', 'from.db', '--to', 'to.db', '--json']
    // The first users are more than the schema and the mark.
    const begun = () => (statSync(`${to}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 1_000_000
    // Repeated if the copy had ended before the signal.
    const ended = await until(async () => {
      for (const ending of ['', '-wal', '-shm']) rmSync(to + ending, { force: true })
      const { code, ...ended } = await signalled(signal, { cwd, args }, begun)
      return code !== 0 && { code, ...ended }
    })
    expect(ended).toEqual({ code, stdout: '', stderr })
    const env = { DATABASE_URL: 'to.db' }
    for (const command of [['serve'], ['export'], ['migrate'], ['bans', 'list']]) {
      const stderr = expect.stringContaining('unfinished copy')
      expect(await run({ cwd, env, args: command })).toMatchObject({ code: 1, stderr })
    }
    const done = await run({ cwd, args })
    expect(JSON.parse(done.stdout)).toMatchObject({ users: MANY / 2 - 2 })
    expect(isDeepStrictEqual(copiedContent(to), copiedContent(from))).toBe(true)
    expect(await run({ cwd, env, args: ['check'] })).toMatchObject({ code: 0 })
  },
)

describe('kill -9', () => {
  test('of a backup at any moment leaves the earlier file or the whole backup, and the next one succeeds', async () => {
    const { cwd, file } = place()
    writeFileSync(file, 'earlier')
    for (const delayMs of [0, 15, 60, 150]) {
      const hasBegun = () => filesOf(file).length > 1
      await signalled('SIGKILL', { cwd, args: ['backup', 'copy.db'] }, hasBegun, delayMs)
      if (statSync(file).size !== 'earlier'.length) expect(emailsIn(file)).toHaveLength(MANY)
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
        const args = ['restore', prepared.file]
        const hasBegun = () => filesOf(path).some(name => name.endsWith('.partial'))
        await signalled('SIGKILL', { cwd, args }, hasBegun, random() * 250)
        await expectSound(cwd)
        expect([MANY, MANY + 1]).toContain(emailsIn(path).length)
        expect((await run({ cwd, args })).code).toBe(0)
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
        const args = ['compact']
        // It is locked and changed.
        const hasBegun = () => filesOf(path).some(name => /-(?:wal|journal)$/.test(name))
        await signalled('SIGKILL', { cwd, args }, hasBegun, random() * 100)
        await expectSound(cwd)
        expect((await run({ cwd, args })).code).toBe(0)
        expect(statSync(path).size).toBeLessThan(bytes * 0.5)
        await expectSound(cwd)
        expect(emailsIn(path)).toHaveLength(MANY / 3)
      }
    },
    LONG_MS,
  )
})

test('backup, restore and compact keep what only the WAL of a killed service has, and no id is used again', async () => {
  const { cwd, path, file } = placeWithFreeSpace({ users: 3000 })
  const killed = await spawnService({ cwd })
  const { body } = await ask(killed, 'POST /users', newUserBody({ email: 'gone@x.co' }))
  await ask(killed, `DELETE /users/${body.id}`)
  await ask(killed, 'POST /users', newUserBody({ email: 'in-wal@x.co' }))
  await killed.end('SIGKILL')
  const bytes = statSync(path).size + statSync(`${path}-wal`).size
  expect((await run({ cwd, args: ['backup', 'copy.db'] })).code).toBe(0)
  expect(emailsIn(file).at(-1)).toBe('in-wal@x.co')

  const again = temporaryFolder()
  const restored = join(again, 'data', 'users.db')
  copyDatabase(path, restored)
  makeDatabase(join(again, 'other.db'), { users: 5 })
  expect((await run({ cwd: again, args: ['restore', 'other.db'] })).code).toBe(0)
  const names = filesOf(restored)
  const kept = names.find(name => name.includes('.replaced-')) ?? ''
  expect(names).toHaveLength(2)
  expect(emailsIn(restored)).toHaveLength(5)
  expect(emailsIn(join(again, 'data', kept)).at(-1)).toBe('in-wal@x.co')

  const { code, stdout } = await run({ cwd, args: ['compact', '--json'] })
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({ bytes_before: bytes })
  const service = await spawnService({ cwd })
  expect((await ask(service, 'POST /users', newUserBody())).body.id).toBe(3003)
  expect(emailsIn(path)).toContain('in-wal@x.co')
})

const IN_USE = /^DATABASE_URL was "[^"]+": a process has it open: stop the service first\n$/

test.each([
  ['restore', ['restore', 'copy.db'], 900, '4000'],
  ['compact', ['compact'], 400, '2000'],
] as const)(
  '%s and a start at once leave a service that serves all of one database',
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
      await service.end('SIGTERM')
      expect((await run({ cwd, args: ['check'] })).stdout).toContain('sound')
    }
  },
  LONG_MS,
)
