import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { makeDatabase } from '../../faults/databases.ts'
import { newUserBody } from '../../support/builders.ts'
import { forgetInIndex, overwritePages } from '../../support/damage.ts'
import { emailsIn, execute, filesOf, modeOf } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

const USERS = 3000

const IN_USE = /^DATABASE_URL was "[^"]+": a process has it open: stop the service first\n$/

interface Place {
  readonly cwd: string
  readonly path: string
}

/** A database after two thirds of its users were deleted. */
function placeWithFreeSpace(mode = 'WAL'): Place {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  makeDatabase(path, { users: USERS })
  execute(path, `PRAGMA journal_mode = ${mode}; DELETE FROM users WHERE id % 3 > 0`)
  expect(filesOf(path)).toEqual(['users.db'])
  return { cwd, path }
}

function compact({ cwd }: { cwd: string }, ...args: string[]) {
  return runCommand({ cwd, args: ['compact', ...args] })
}

/** By the versions in the header: https://www.sqlite.org/fileformat.html#file_format_version_numbers */
function isInWal(path: string): boolean {
  return readFileSync(path)[18] === 2
}

describe('compact', () => {
  test.each(['WAL', 'DELETE'])(
    'returns free space in journal mode %s, and keeps the file, its mode and all users',
    async mode => {
      const { cwd, path } = placeWithFreeSpace(mode)
      chmodSync(path, 0o640)
      const before = statSync(path)
      const finished = await compact({ cwd })
      const after = statSync(path)
      const [from, to] = [before, after].map(({ size }) => (size / 1e6).toFixed(1))
      expect(finished).toEqual({
        code: 0,
        stdout: `./data/users.db: ${from} MB before, ${to} MB now\n`,
        stderr: '',
      })
      expect(after.size).toBeLessThan(before.size * 0.5)
      expect([after.ino, modeOf(path)]).toEqual([before.ino, 0o640])
      expect(isInWal(path)).toBe(mode === 'WAL')
      expect(filesOf(path)).toEqual(['users.db'])
      expect((await runCommand({ cwd, args: ['check'] })).stdout).toBe('./data/users.db: sound\n')
      expect(emailsIn(path)).toHaveLength(USERS / 3)
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

  test('fails while a service runs, also an idle one, and that continues', async () => {
    const place = placeWithFreeSpace()
    const service = await openTestApp({ env: { DATABASE_URL: place.path } })
    const { code, stdout, stderr } = await compact(place)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(IN_USE)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
    await service.stop()
    expect((await compact(place)).code).toBe(0)
  })

  test.each(
    ['WAL', 'DELETE'].flatMap(mode => [
      { mode, what: 'reads', sql: 'BEGIN; SELECT count(*) FROM users' },
      { mode, what: 'writes', sql: 'BEGIN IMMEDIATE' },
      { mode, what: 'locks it', sql: 'BEGIN EXCLUSIVE' },
    ]),
  )('in journal mode $mode fails while another program $what', async ({ mode, sql }) => {
    const place = placeWithFreeSpace(mode)
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

  test.each<[why: string, line: RegExp, prepare: ((place: Place) => unknown) | string]>([
    ['no file', /: there is no such file$/, './none.db'],
    ['a folder', /^DATABASE_URL was ".\/data": .*\(EISDIR\)$/, './data'],
    [
      'a database in memory',
      /: such a database is in the memory of the service, and no other process can reach it$/,
      ':memory:',
    ],
    [
      'a text',
      /: it is not a SQLite database$/,
      ({ path }) => writeFileSync(path, 'to do: nothing\n'),
    ],
    ['an empty file', /: it is empty$/, ({ path }) => writeFileSync(path, '')],
    [
      'the database of another program',
      /: it is the database of another program$/,
      ({ path }) => execute(path, 'DROP TABLE schema_migrations'),
    ],
    [
      'a newer schema',
      /: its schema version 99 is from a newer release/,
      ({ path }) => execute(path, `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`),
    ],
    [
      'damage',
      /: it is damaged: restore it from a backup/,
      ({ path }) => overwritePages(path, 'garbage ', { from: 20, to: 22 }),
    ],
    [
      'an index that lacks rows, which VACUUM would not notice',
      /: it is damaged: restore it from a backup/,
      ({ path }) => forgetInIndex(path),
    ],
  ])('with %s fails with one line, and changes nothing', async (_why, line, prepare) => {
    const place = placeWithFreeSpace()
    const env = typeof prepare === 'string' ? { DATABASE_URL: prepare } : {}
    if (typeof prepare !== 'string') prepare(place)
    const before = readFileSync(place.path)
    const finished = await runCommand({ cwd: place.cwd, args: ['compact'], env })
    expect(finished).toMatchObject({ code: 1, stdout: '' })
    expect(finished.stderr).toMatch(/^[^\n]+\n$/)
    expect(finished.stderr.trimEnd()).toMatch(line)
    expect(readFileSync(place.path).equals(before)).toBe(true)
    expect(filesOf(place.path)).toEqual(['users.db'])
    expect(filesOf(join(place.cwd, 'none.db'))).toEqual([])
  })
})
