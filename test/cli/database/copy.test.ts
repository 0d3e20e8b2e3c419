import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { copiedContent, makeCopySource } from '../../support/copy-databases.ts'
import { execute, filesOf } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand, stderrOf, stdoutOf } from '../../support/run-command.ts'

async function place() {
  const cwd = temporaryFolder()
  const at = { cwd, from: join(cwd, 'from.db'), to: join(cwd, 'to.db') }
  await makeCopySource(at.from)
  return at
}

const ARGUMENTS = ['copy', '--from', 'from.db', '--to', 'file:to.db']

function copy(cwd: string, ...args: string[]) {
  return runCommand({ cwd, args: [...ARGUMENTS, ...args] })
}

test.each(
  ['from.db', 'backup.db'].flatMap(from => [
    [from, ['copy', '--from', from, '--to', 'to.db']],
    [from, ['export', 'users.csv']],
    [from, ['import', 'more.ndjson', '--dry-run']],
  ]),
)('%s stays as it was, to the byte, after %j', async (from, args) => {
  const { cwd } = await place()
  const run = (DATABASE_URL: string, ...args: string[]) =>
    runCommand({ cwd, env: { DATABASE_URL }, args })
  expect(await run('from.db', 'backup', 'backup.db')).toMatchObject({ code: 0 })
  writeFileSync(join(cwd, 'more.ndjson'), '{"name": "Ann", "email": "ann@more.example.com"}\n')
  const path = join(cwd, from)
  const before = readFileSync(path)
  expect(await run(from, ...args)).toMatchObject({ code: 0 })
  expect(readFileSync(path).equals(before)).toBe(true)
  expect(filesOf(path)).toEqual([from])
})

describe('copy', () => {
  test('copies everything and prints what it was, with --json for programs', async () => {
    const { cwd, from, to } = await place()
    const before = copiedContent(from)
    const stdout = await stdoutOf(copy(cwd))
    expect(stdout).toMatch(
      /^file:to\.db: 23 users, 13 idempotency keys, 5 bans, 5 API keys, 2 webhooks, verified, in [\d.]+ s\n2 webhooks disabled until `webhooks resume NAME`\n$/,
    )
    expect(filesOf(to)).toEqual(['to.db'])
    expect([copiedContent(to), copiedContent(from)]).toEqual([before, before])
    expect(await copy(cwd, '--json')).toMatchObject({ code: 1, stdout: '' })
    rmSync(to)
    expect(JSON.parse((await copy(cwd, '--json')).stdout)).toEqual({
      ...{ from: 'from.db', to: 'file:to.db', last_id: 25 },
      ...{ users: 23, idempotency_keys: 13, bans: 5, api_keys: 5, webhooks: 2 },
      checksum: expect.stringMatching(/^[0-9a-f]{64}$/),
      seconds: expect.any(Number),
    })
  })

  test('a service goes on with the copy: cursors, idempotency keys and ids stay right', async () => {
    const cwd = temporaryFolder()
    const first = await openTestApp({ env: { DATABASE_URL: join(cwd, 'from.db') } })
    const key = { 'idempotency-key': 'once' }
    const body = newUserBody()
    const created = await ask(first, 'POST /users', body, key)
    for (let i = 0; i < 3; i++) await ask(first, 'POST /users', newUserBody())
    await ask(first, 'DELETE /users/4')
    const page = await fetch(`${first.url}/users?per_page=1`)
    const [, next] = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '') ?? []
    // While the service runs.
    expect(await copy(cwd)).toMatchObject({ code: 0 })

    const second = await openTestApp({ env: { DATABASE_URL: join(cwd, 'to.db') } })
    const rest = await fetch(new URL(next ?? '', second.url))
    expect(await rest.json()).toMatchObject([{ id: 2 }])
    const again = await ask(second, 'POST /users', body, key)
    expect([again.status, again.body]).toEqual([201, created.body])
    expect((await ask(second, 'POST /users', newUserBody())).body).toMatchObject({ id: 5 })
  })

  const NO_SERVER = 'was "postgres://***@127.0.0.1:1/users": no server listens there (ECONNREFUSED)'

  test.each([
    [
      ['mysql://ann:secret@db/users', 'to.db'],
      '--from was "mysql://***@db/users"; it may be file:PATH, a path, :memory:, or postgres://',
    ],
    [
      ['from.db', 'file:to.db?mode=ro'],
      '--to was "file:***", but a path has no parameters here: leave out ? and # and what follows them',
    ],
    [['from.db', ''], '--to was ""; it may be '],
    [['nowhere.db', 'to.db'], '--from was "nowhere.db": there is no such file'],
    [[':memory:', 'to.db'], '--from was ":memory:": such a database is in the memory'],
    [['from.db', ':memory:'], '--to was ":memory:": such a database is in the memory'],
    [['from.db', 'file:./from.db'], '--from and --to name the same database'],
    [['from.db', 'from.db-wal'], '--from and --to name the same database'],
    [['from.db', 'used.db'], '--to was "used.db": it is not empty: it has users, '],
    [['from.db', 'postgres://ann:secret@127.0.0.1:1/users'], `--to ${NO_SERVER}`],
    [['postgres://ann:secret@127.0.0.1:1/users', 'to.db'], `--from ${NO_SERVER}`],
  ])('%j is refused in one line, and creates nothing', async ([from = '', to = ''], message) => {
    const at = await place()
    await makeCopySource(join(at.cwd, 'used.db'))
    // The ten seconds for which a server that is not there is waited for.
    vi.useFakeTimers({ toFake: ['performance'] })
    const passing = setInterval(() => vi.advanceTimersByTime(1000), 50)
    onTestFinished(() => {
      clearInterval(passing)
      vi.useRealTimers()
    })
    const before = readFileSync(at.from)
    const args = ['copy', '--from', from, '--to', to]
    const stderr = await stderrOf(runCommand({ cwd: at.cwd, args }))
    expect(stderr).toMatch(/^.+\n$/)
    expect(stderr.slice(0, message.length)).toBe(message)
    expect(stderr).not.toContain('secret')
    expect(readFileSync(at.from).equals(before)).toBe(true)
    expect(existsSync(at.to)).toBe(false)
  })

  test('blames the source for what is wrong with it, also after rows were copied', async () => {
    const { cwd, from } = await place()
    execute(from, `UPDATE sqlite_sequence SET seq = 9007199254740993 WHERE name = 'users'`)
    const stderr = '--from was "from.db": it has given out ids greater than 9007199254740991\n'
    expect(await copy(cwd)).toEqual({ code: 1, stdout: '', stderr })
  })

  test('names the user that the target cannot hold', async () => {
    const { cwd, from } = await place()
    execute(from, `PRAGMA ignore_check_constraints = ON; UPDATE users SET name = '' WHERE id = 7`)
    const stderr =
      '--to was "file:to.db": it cannot hold user 7: CHECK constraint failed: users_name_chars\n'
    expect(await copy(cwd)).toEqual({ code: 1, stdout: '', stderr })
  })
})
