import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { LimitsFile } from '../../../src/limits/kinds/define-limits.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { type FinishedProcess, runCommand, stderrOf, stdoutOf } from '../../support/run-command.ts'
import { untilPasses } from '../../support/until.ts'

const LOGIN = {
  name: 'login',
  path: '/login',
  maxretry: 2,
  findtime: '1 hour',
  bantime: '1 hour',
} as const

const LIMITS: LimitsFile = {
  bans: [
    LOGIN,
    { ...LOGIN, name: 'by key', path: '/key', by: 'header:X-Api-Key' },
    { ...LOGIN, name: 'by both', path: '/both', by: ['ip', 'header:X-Api-Key'] },
    { ...LOGIN, name: 'on trial', path: '/trial', dryRun: true },
  ],
}

const HOUR_MS = 3_600_000

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'

interface Place {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

function place(): Place {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
  return { cwd, env: { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1', DATABASE_URL: 'users.db' } }
}

/** A folder with a database of this release, without a service. */
async function migratedPlace(): Promise<Place> {
  const made = place()
  const database = await openSqlite({ path: join(made.cwd, 'users.db'), now: Date.now })
  database.close()
  return made
}

/** The service of a place; a client says its address in X-Forwarded-For. */
function serve({ cwd }: Place): Promise<TestApp> {
  const env = { TRUST_PROXY: '1', DATABASE_URL: join(cwd, 'users.db') }
  return openTestApp({ env, limits: LIMITS })
}

function bans(at: Place, ...args: string[]): Promise<FinishedProcess> {
  return runCommand({ ...at, args: ['bans', ...args] })
}

/** What a command prints, which must succeed. */
function printed(at: Place, ...args: string[]): Promise<string> {
  return stdoutOf(bans(at, ...args))
}

const printedJson = async (at: Place, ...args: string[]) =>
  JSON.parse(await printed(at, ...args, '--json'))

const ask = ({ http }: TestApp, path: string, client = ANN) =>
  http.get(path).set('X-Forwarded-For', client)

/** Expects exit code 1 and one line on standard error, which begins like this. */
function expectRefusal({ code, stdout, stderr }: FinishedProcess, line: string): void {
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^[^\n]+\n$/)
  expect(stderr.slice(0, line.length)).toBe(line)
}

function insert({ cwd }: Place, rows: readonly (readonly [string, string, number])[]): void {
  const database = new Database(join(cwd, 'users.db'), { timeout: 5000 })
  const statement = database.prepare(
    'INSERT OR REPLACE INTO bans (rule, client_key, ends_at, lasts_ms, changed_at) VALUES (?, ?, ?, 31622400000, ?)',
  )
  database.transaction(() => {
    for (const row of rows) statement.run(...row, Date.now())
  })()
  database.close()
}

describe('a running service', () => {
  test('obeys a lift, after which the client starts from zero', async () => {
    const at = place()
    const service = await serve(at)
    const strike = async () => (await ask(service, '/login')).status
    expect([await strike(), await strike(), await strike()]).toEqual([404, 404, 403])
    await untilPasses(async () => expect(await printedJson(at, 'list')).toHaveLength(1))
    const lifted = /^lifted: login {2}198\.51\.100\.1 {2}until \S+Z \(\S.*\)\n$/
    expect(await printed(at, 'lift', ANN)).toMatch(lifted)
    await untilPasses(() => ask(service, '/users').expect(200))
    expect([await strike(), await strike(), await strike()]).toEqual([404, 404, 403])
  })

  test('follows 100,000 bans, which list and lift handle too', async () => {
    const at = place()
    const service = await serve(at)
    const rows = Array.from({ length: 100_000 }, (_, index) => {
      const client = `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`
      return ['login', client, Date.now() + HOUR_MS + index] as const
    })
    insert(at, rows)
    await untilPasses(() => ask(service, '/users', '10.1.2.3').expect(403))
    expect(await printedJson(at, 'list')).toHaveLength(100_000)
    expect((await printed(at, 'lift', '--rule', 'login')).split('\n')).toHaveLength(100_001)
    await untilPasses(() => ask(service, '/users', '10.1.2.3').expect(200))
  })
})

describe('bans lift', () => {
  test('lifts those of a client, of a rule, of both or all, and prints a line for each', async () => {
    const at = await migratedPlace()
    const rows = ['login', 'by key', 'on trial'].flatMap(rule =>
      [ANN, BOB].map(client => [rule, client, Date.now() + HOUR_MS] as const),
    )
    insert(at, rows)
    for (const [args, lifted, left] of [
      [
        [ANN, '--rule', 'login'],
        1,
        ['by key 1', 'by key 2', 'login 2', 'on trial 1', 'on trial 2'],
      ],
      [[BOB], 3, ['by key 1', 'on trial 1']],
      [['--rule', 'by key'], 1, ['on trial 1']],
      [['--all'], 1, []],
    ] as const) {
      expect((await printed(at, 'lift', ...args)).trim().split('\n')).toHaveLength(lifted)
      const rest: { rule: string; client: string }[] = await printedJson(at, 'list')
      expect(rest.map(({ rule, client }) => `${rule} ${client.slice(-1)}`)).toEqual(left)
    }
  })

  test.each([
    { args: [BOB], line: `there is no ban of ${BOB}; see bans list` },
    { args: ['--rule', 'gone'], line: 'there is no ban by the rule "gone"; see bans list' },
    {
      args: ['a\nb', '--rule', 'login'],
      line: 'there is no ban of "a\\nb" by the rule "login"; see bans list',
    },
  ])('$args without a match ends with exit code 1 and one line', async ({ args, line }) => {
    const at = await migratedPlace()
    insert(at, [['login', ANN, Date.now() + HOUR_MS]])
    const refused = { code: 1, stderr: `${line}\n` }
    expect(await bans(at, 'lift', ...args)).toEqual({ ...refused, stdout: '' })
    const asJson = await bans(at, 'lift', ...args, '--json')
    expect({ ...asJson, stdout: JSON.parse(asJson.stdout) }).toEqual({
      ...refused,
      stdout: { lifted: 0 },
    })
    expect(await printedJson(at, 'list')).toHaveLength(1)
  })

  test.each([[[]], [['x', '--all']], [['--rule', 'login', '--all']]])(
    'with %j does nothing except say what it needs',
    async args => {
      const stderr = 'bans lift needs a KEY, --rule NAME or both, or --all; see --help\n'
      expect(await bans(place(), 'lift', ...args)).toEqual({ code: 2, stdout: '', stderr })
    },
  )
})

describe('bans add', () => {
  test('bans for the bantime of the rule, and replaces an existing ban', async () => {
    const at = await migratedPlace()
    await printed(at, 'add', 'login', ANN, '--for', '1 day')
    const before = Date.now()
    const ban = await printedJson(at, 'add', 'login', ANN)
    expect(ban).toEqual({ rule: 'login', client: ANN, ends_at: expect.stringMatching(/T.*\dZ$/) })
    expect(Date.parse(ban.ends_at)).toBeGreaterThanOrEqual(before + HOUR_MS)
    expect(Date.parse(ban.ends_at)).toBeLessThanOrEqual(Date.now() + HOUR_MS)
    expect(await printedJson(at, 'list')).toEqual([ban])
  })

  test.each([
    {
      args: ['logins', ANN],
      line: 'RULE was logins, but it must be a ban rule of the limits: "login", "by key", "by both", "on trial"',
    },
    {
      args: ['on trial', ANN],
      line: 'RULE was "on trial", but it is in dry run and bans no client',
    },
    {
      args: ['login', 'ann'],
      line: 'KEY was ann, but it must be what the rule counts by: ip',
    },
    {
      args: ['by both', ANN],
      line: 'KEY was 198.51.100.1, but it must be what the rule counts by: a JSON list, as a text, with a text for each of ip and header:X-Api-Key',
    },
    { env: { LIMITS_FILE: '' }, line: 'RULE was login, but it is unknown: LIMITS_FILE is not set' },
    {
      env: { LIMITS_FILE: 'gone.json' },
      line: 'LIMITS_FILE was "gone.json": the file cannot be read (there is no such file)',
    },
    {
      env: { CACHE_STORE: 'none' },
      line: 'RULE was login, but it has no effect, because CACHE_STORE is "none"',
    },
  ])(
    'rejects $args $env with exit code 1 and one line',
    async ({ args = ['login', ANN], env, line }) => {
      const at = await migratedPlace()
      const changed = { ...at, env: { ...at.env, ...env } }
      expectRefusal(await bans(changed, 'add', ...args), line)
      expectRefusal(await bans(changed, 'add', ...args, '--json'), line)
      expect(await printed(at, 'list')).toBe('no bans\n')
    },
  )

  test.each(['', '0', '366 days', 'soon'])('rejects --for %j with exit code 2', async time => {
    const stderr = await stderrOf(bans(place(), 'add', 'login', ANN, `--for=${time}`), 2)
    expect(stderr).toMatch(/^--for was .+; it may be a time such as [^\n]+\n$/)
  })
})

describe('bans list', () => {
  test('prints a line for each ban by rule and client, and odd keys in quotes that lift understands', async () => {
    const at = await migratedPlace()
    await printed(at, 'add', 'login', ANN)
    await printed(at, 'add', 'by key', 'a\n"b" c', '--for', '2 days')
    const [odd = '', plain, ...others] = (await printed(at, 'list')).trimEnd().split('\n')
    expect(plain).toMatch(/^login {2}198\.51\.100\.1 {2}until [\d-]+T[\d:.]+Z \(\S.*\)$/)
    expect(others).toEqual([])
    const [, quoted = ''] = /^"by key" {2}(".*") {2}until/.exec(odd) ?? []
    expect(JSON.parse(quoted)).toBe('a\n"b" c')
    expect(await printedJson(at, 'lift', quoted)).toEqual({ lifted: 1 })
    expect(await printedJson(at, 'list')).toMatchObject([{ rule: 'login' }])
  })

  test('leaves out ended bans, needs no rules, and an empty list is no failure', async () => {
    const at = await migratedPlace()
    insert(at, [
      ['login', 'ended', Date.now() - 1],
      ['gone', 'still', Date.now() + HOUR_MS],
    ])
    const withoutRules = { cwd: at.cwd, env: { DATABASE_URL: 'users.db' } }
    expect(await printedJson(withoutRules, 'list')).toMatchObject([{ rule: 'gone' }])
    expect(await printedJson(at, 'lift', '--all')).toEqual({ lifted: 1 })
    for (const args of [['list'], ['lift', '--all']]) {
      expect(await printed(at, ...args)).toBe('no bans\n')
    }
    expect(await printedJson(at, 'list')).toEqual([])
  })
})

test('a database that is not there is refused by each command, and not made', async () => {
  const at = place()
  for (const args of [['list'], ['lift', '--all'], ['add', 'login', ANN]]) {
    const line = 'DATABASE_URL was "users.db": there is no such file'
    expectRefusal(await bans(at, ...args), line)
  }
  expect(readdirSync(at.cwd)).toEqual(['limits.json'])
})
