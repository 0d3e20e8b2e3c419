import {
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../../support/builders.ts'
import { openPlace } from '../../support/command-place.ts'
import { forgetInIndex, overwritePages, PAGE_BYTES } from '../../support/damage.ts'
import { execute, filesOf, makeDatabase, modeOf } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand, stderrOf } from '../../support/run-command.ts'

const BACKUP = ['backup', 'copy.db']

const RESTORE = ['restore', 'copy.db']

const TRANSFERS = [['import', '-'], ['export']]

const STORED = [
  ['keys', 'list'],
  ['keys', 'revoke', 'web'],
  ['webhooks', 'list'],
  ['bans', 'list'],
]

const COMMANDS = [['migrate'], ['migrate', '--status'], BACKUP, ['compact'], ['check']]

const NO_DATABASE = /: it is not a SQLite database$/m
const DAMAGED = /: (?:it is damaged: restore it from a backup|it is not sound|\*\*\*|Tree |.*page)/
const OF_ANOTHER = /: it is the database of another program$/m
const NEWER = /: its schema version 99 is from a newer release: this release knows only \d+/

const write = (content: string | Buffer) => (path: string) => writeFileSync(path, content)
const change = (sql: string) => (path: string) => execute(path, sql)
const cut = (bytes: (size: number) => number) => (path: string) =>
  truncateSync(path, bytes(statSync(path).size))
const garble = (text: string) => (path: string) => overwritePages(path, text, { from: 20, to: 22 })

test.each<[what: string, reason: RegExp, spoil: (path: string) => unknown]>([
  ['a text', NO_DATABASE, write('to do: nothing\n'.repeat(1000))],
  // SQLite treats a file of one byte as an empty one.
  ['a text of one byte', NO_DATABASE, write('\n')],
  ['a file of zeros', NO_DATABASE, write(Buffer.alloc(8192))],
  ['garbage after a SQLite header', NO_DATABASE, write(`SQLite format 3\0${'garb'.repeat(2000)}`)],
  ['a database of one page', DAMAGED, cut(() => PAGE_BYTES)],
  ['a database without its last page', DAMAGED, cut(size => size - PAGE_BYTES)],
  ['garbage in its middle', DAMAGED, garble('garbage ')],
  ['zeros in its middle', DAMAGED, garble('\0')],
  ['the database of another program', OF_ANOTHER, change('DROP TABLE schema_migrations')],
  ['a newer schema', NEWER, change(`INSERT INTO schema_migrations VALUES (99, '99', '', '')`)],
  [
    'the database of an unreleased version',
    /: an unreleased version made it: `export` its users with that version/,
    change(`UPDATE schema_migrations SET name = '0001_create_users', hash = 'x'`),
  ],
])('no command takes %s: each says so, and leaves the file as it was', async (_, reason, spoil) => {
  const cwd = temporaryFolder()
  const path = join(cwd, 'users.db')
  makeDatabase(path, { users: 3000 })
  makeDatabase(join(cwd, 'other.db'), { users: 1 })
  spoil(path)
  writeFileSync(join(cwd, 'copy.db'), 'earlier')
  const before = [readFileSync(path, 'latin1'), modeOf(path)]
  for (const args of [...COMMANDS, ['restore', 'users.db']]) {
    const DATABASE_URL = args[0] === 'restore' ? 'other.db' : 'users.db'
    const ended = await runCommand({ cwd, args, env: { DATABASE_URL } })
    const line = expect.stringMatching(reason)
    const expected = { code: 1, stdout: '', stderr: line }
    const checked = { code: 3, stdout: line, stderr: '' }
    expect({ args, ...ended }).toEqual({ args, ...(args[0] === 'check' ? checked : expected) })
    if (args[0] !== 'check') expect(ended.stderr).toMatch(/^(?:DATABASE_URL was )?"[^\n]+\n$/)
  }
  expect([readFileSync(path, 'latin1'), modeOf(path)]).toEqual(before)
  expect(readFileSync(join(cwd, 'copy.db'), 'utf8')).toBe('earlier')
  expect(filesOf(path)).toEqual(['users.db'])
})

test.each<[url: string, reason: RegExp, commands: string[][]]>([
  [
    ':memory:',
    /: such a database is in the memory/,
    [...COMMANDS, RESTORE, ...TRANSFERS, ...STORED],
  ],
  ['./none/users.db', /: there is no such file$/m, [BACKUP, ['compact'], ['check'], ...STORED]],
  ['./data', /: it is not a regular file$/m, COMMANDS],
  ['./empty.db', /: it is empty$/m, [BACKUP, ['compact']]],
])('%s is refused in one line, and nothing is made', async (url, reason, commands) => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, 'data'))
  writeFileSync(join(cwd, 'empty.db'), '')
  writeFileSync(join(cwd, 'copy.db'), 'earlier')
  const before = readdirSync(cwd)
  for (const args of commands) {
    const { code, stdout, stderr } = await runCommand({ cwd, args, env: { DATABASE_URL: url } })
    expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: '' })
    expect(stderr).toMatch(/^DATABASE_URL was "[^\n]+\n$/)
    expect(stderr).toMatch(reason)
  }
  expect(readdirSync(cwd)).toEqual(before)
})

test('compact refuses an index that lacks rows, which SQLite would not notice', async () => {
  const { path, run } = openPlace({ users: 3000 })
  forgetInIndex(path)
  expect(await run('compact')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/: it is damaged: /),
  })
})

const IN_USE = /^DATABASE_URL was "[^"]+": a process has it open: stop the service first\n$/

/** Commands that no other process may disturb. */
const ALONE = [RESTORE, ['compact']]

function placeInMode(mode: string) {
  const place = openPlace({ users: 7 })
  makeDatabase(place.file, { users: 5 })
  execute(place.path, `PRAGMA journal_mode = ${mode}`)
  return place
}

test.each([
  ['WAL', 'reads', 'BEGIN; SELECT count(*) FROM users'],
  ['WAL', 'writes', 'BEGIN IMMEDIATE'],
  ['DELETE', 'reads', 'BEGIN; SELECT count(*) FROM users'],
  ['DELETE', 'locks it', 'BEGIN EXCLUSIVE'],
])('in mode %s restore and compact fail while a program %s', async (mode, _what, sql) => {
  const { path, run } = placeInMode(mode)
  const before = readFileSync(path)
  const other = new Database(path)
  onTestFinished(() => void other.close())
  other.exec(sql)
  for (const args of ALONE) {
    expect(await stderrOf(run(...args))).toMatch(IN_USE)
  }
  expect(readFileSync(path).equals(before)).toBe(true)
})

test('restore and compact fail while a service runs, also an idle one, which continues', async () => {
  const { path, run } = placeInMode('WAL')
  const service = await openTestApp({ env: { DATABASE_URL: path } })
  for (const args of ALONE) {
    expect(await stderrOf(run(...args))).toMatch(IN_USE)
  }
  expect((await ask(service, 'GET /users')).body).toHaveLength(7)
  expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  await service.stop()
  for (const args of ALONE) expect((await run(...args)).code).toBe(0)
})

test.each(['backup', 'restore'])('%s refuses a URL without showing it', async command => {
  const { run } = openPlace({ users: 1 })
  const line = 'FILE must be the path of a file, and no URL; see --help\n'
  expect(await stderrOf(run(command, 'postgres://ann:s3cret@h/users'), 2)).toBe(line)
  expect(await stderrOf(run(command, ''), 2)).toBe(line)
})
