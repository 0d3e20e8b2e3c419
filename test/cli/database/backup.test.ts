import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeDatabase } from '../../faults/databases.ts'
import { newUserBody } from '../../support/builders.ts'
import { overwritePages } from '../../support/damage.ts'
import { emailsIn, execute, filesOf, modeOf } from '../../support/databases.ts'
import { fillWithUsers } from '../../support/fill-with-users.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

interface Place {
  readonly cwd: string
  readonly path: string
  readonly file: string
}

async function placeWithUsers(users = 3): Promise<Place> {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  await fillWithUsers(path, users)
  return { cwd, path, file: join(cwd, 'copy.db') }
}

function backup({ cwd }: { cwd: string }, ...args: string[]) {
  return runCommand({ cwd, args: ['backup', ...args] })
}

describe('backup', () => {
  test('of a running service is one file of mode 600 with all acknowledged users', async () => {
    const place = await placeWithUsers(1)
    const service = await openTestApp({ env: { DATABASE_URL: place.path } })
    const emails = ['one@x.co', 'two@x.co']
    for (const email of emails) await ask(service, 'POST /users', newUserBody({ email }))
    const { code, stdout, stderr } = await backup(place, 'copy.db')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^copy\.db: [\d.]+ MB, checked\n$/)
    expect(emailsIn(place.file)).toEqual(['user1@x.co', ...emails])
    expect(filesOf(place.file)).toEqual(['copy.db'])
    expect(modeOf(place.file)).toBe(0o600)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  })

  test('--json prints the same for programs', async () => {
    const place = await placeWithUsers()
    const { code, stdout, stderr } = await backup(place, 'copy.db', '--json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(JSON.parse(stdout)).toEqual({ file: 'copy.db', bytes: statSync(place.file).size })
    expect(await backup(place, 'nowhere/copy.db', '--json')).toMatchObject({ code: 1, stdout: '' })
  })

  test('can be read from a read-only folder, and be served unchanged', async () => {
    const place = await placeWithUsers()
    await backup(place, 'copy.db')
    // Not in WAL, by the versions in the header: https://www.sqlite.org/fileformat.html#file_format_version_numbers
    expect([...readFileSync(place.file).subarray(18, 20)]).toEqual([1, 1])
    const service = await openTestApp({ env: { DATABASE_URL: place.file } })
    expect((await ask(service, 'GET /users')).body).toHaveLength(3)
  })

  test('replaces an older one, whatever its mode, and removes the partial files of killed ones only', async () => {
    const place = await placeWithUsers()
    writeFileSync(place.file, 'older', { mode: 0o644 })
    const ofRunning = `copy.db.${process.ppid}-0123abcd.partial`
    const staying = [ofRunning, 'copy.db.note.partial']
    // No process has such a high number.
    const ofKilled = 'copy.db.4194305-0123abcd.partial'
    for (const name of [...staying, ofKilled, `${ofKilled}-journal`]) {
      writeFileSync(join(place.cwd, name), 'half')
    }
    expect((await backup(place, place.file)).code).toBe(0)
    expect(emailsIn(place.file)).toHaveLength(3)
    expect(modeOf(place.file)).toBe(0o600)
    expect(filesOf(place.file)).toEqual(['copy.db', ...staying])
  })

  test('of an older schema keeps it, and migrates nothing', async () => {
    const cwd = temporaryFolder()
    const path = join(cwd, 'data', 'users.db')
    makeDatabase(path, { users: 5, migrations: 2 })
    const before = readFileSync(path)
    expect((await backup({ cwd }, 'copy.db')).code).toBe(0)
    expect(readFileSync(path).equals(before)).toBe(true)
    const env = { DATABASE_URL: 'copy.db' }
    const { stdout } = await runCommand({ cwd, args: ['migrate', '--status'], env })
    expect(stdout.match(/applied/g)).toHaveLength(2)
  })

  test.each<{
    why: string
    line: RegExp
    args?: string[]
    url?: string
    prepare?: (place: Place) => unknown
  }>([
    {
      why: 'a database in memory',
      url: ':memory:',
      line: /^DATABASE_URL was ":memory:": such a database is in the memory/,
    },
    {
      why: 'no database',
      url: 'file:./none/users.db',
      line: /^DATABASE_URL was .*: there is no such file$/,
    },
    {
      why: 'no folder',
      args: ['none/copy.db'],
      line: /^".*none\/copy\.db": its folder does not exist$/,
    },
    { why: 'a folder', args: ['data'], line: /^".*data": it is not a regular file$/ },
    { why: 'the database itself', args: ['data/users.db'], line: /: it is the database itself$/ },
    {
      why: 'its WAL',
      args: ['data/users.db-wal'],
      prepare: ({ path }) => writeFileSync(`${path}-wal`, ''),
      line: /: it is the database itself$/,
    },
    {
      why: 'a text',
      prepare: ({ path }) => writeFileSync(path, 'a text that is longer than a header of SQLite'),
      line: /^DATABASE_URL .*: it is not a SQLite database$/,
    },
    {
      why: 'an empty file',
      prepare: ({ path }) => writeFileSync(path, ''),
      line: /^DATABASE_URL .*: it is empty$/,
    },
    {
      why: 'a newer schema',
      prepare: ({ path }) =>
        execute(path, `INSERT INTO schema_migrations VALUES (99, '0099_x', '', '')`),
      line: /its schema version 99 is from a newer release/,
    },
    {
      why: 'the database of another program',
      url: 'other.db',
      prepare: ({ cwd }) => execute(join(cwd, 'other.db'), 'CREATE TABLE songs (name)'),
      line: /it is the database of another program$/,
    },
    {
      why: 'damage',
      prepare: ({ path }) => overwritePages(path, 'garbage ', { from: 2, to: 4 }),
      line: /^DATABASE_URL .*: it is (?:damaged|not sound)/,
    },
  ])('with $why fails with one line, and an earlier one stays', async refusal => {
    const { args = ['copy.db'], url, prepare, line } = refusal
    const place = await placeWithUsers()
    writeFileSync(place.file, 'earlier')
    prepare?.(place)
    const { cwd } = place
    const env = url === undefined ? {} : { DATABASE_URL: url }
    const { code, stdout, stderr } = await runCommand({ cwd, args: ['backup', ...args], env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr.trimEnd()).toMatch(line)
    expect(stderr.trimEnd()).not.toContain('\n')
    expect(readFileSync(place.file, 'utf8')).toBe('earlier')
    expect(filesOf(place.file)).toEqual(['copy.db'])
    expect(existsSync(join(cwd, 'none'))).toBe(false)
  })

  test.each([{ args: [] }, { args: ['one', 'two'] }, { args: [''] }])(
    'with $args is a wrong command line',
    async ({ args }) => {
      expect((await backup({ cwd: temporaryFolder() }, ...args)).code).toBe(2)
    },
  )
})
