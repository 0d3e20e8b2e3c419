import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import type { Key, LimitsFile } from '../../src/limits/kinds/define-limits.ts'
import { ANN, openLimitedApp } from '../support/limited-app.ts'
import type { TestApp } from '../support/open-test-app.ts'
import { runCommand, stdoutOf } from '../support/run-command.ts'
import { storedBytes } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

const SECRET = 'correct-horse-battery-staple'
const BEARER = `Bearer ${SECRET}`

const HOUR = { findtime: '1 hour', bantime: '1 hour' } as const

function digestOf(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`
}

/** Rules that count by a key in every way; their names and paths end with `number`. */
function countedBy(by: Key, number = 0) {
  const limit = { limit: 1, period: '1 hour', by } as const
  return {
    bans: [{ name: `ban${number}`, path: `/login${number}`, maxretry: 1, by, ...HOUR }],
    throttle: [{ name: `throttle${number}`, path: `/throttled${number}`, ...limit }],
    track: [{ name: `track${number}`, path: `/tracked${number}`, ...limit }],
    rateLimits: [{ name: `route${number}`, to: 1, within: '1 hour', by } as const],
  }
}

/** By the clock of the machine, as the commands that read its database. */
const open = (limits: LimitsFile) => openLimitedApp(limits, { now: Date.now })

/** What a command prints, which must succeed. */
async function printed({ databaseUrl, limitsPath }: TestApp, ...args: string[]): Promise<string> {
  const env = { DATABASE_URL: databaseUrl, LIMITS_FILE: limitsPath }
  const stdout = await stdoutOf(runCommand({ cwd: dirname(limitsPath), env, args }))
  return stdout
}

/** The keys of the bans that `bans list` prints. */
async function listed(app: TestApp): Promise<string[]> {
  const bans: { client: string }[] = JSON.parse(await printed(app, 'bans', 'list', '--json'))
  return bans.map(({ client }) => client).toSorted()
}

test('a rule counts credentials, and only their digest is in the log, in notices and in the database', async () => {
  const cases = ['Authorization', 'proxy-authorization', 'COOKIE'].flatMap(name =>
    ([`header:${name}`, ['ip', `header:${name}`]] as const).map((by, index) => {
      const value = `Bearer ${SECRET}-${name}-${index}`
      const digest = digestOf(value)
      return { name, value, by, key: index === 0 ? digest : JSON.stringify([ANN, digest]) }
    }),
  )
  const rules = cases.map(({ by }, index) => countedBy(by, index))
  const app = await open({
    bans: rules.flatMap(({ bans }) => bans),
    throttle: rules.flatMap(({ throttle }) => throttle),
    track: rules.flatMap(({ track }) => track),
    rateLimits: rules.flatMap(({ rateLimits }) => rateLimits),
  })
  for (const [index, { name, value }] of cases.entries()) {
    for (const [path, status] of [
      [`/throttled${index}`, 404],
      [`/throttled${index}`, 429],
      [`/tracked${index}`, 404],
      [`/tracked${index}`, 404],
      ['/users', 200],
      ['/users', 429],
      [`/login${index}`, 404],
      ['/users', 403],
    ] as const) {
      expect([path, await app.statusOf(`GET ${path}`, { [name]: value })]).toEqual([path, status])
    }
    expect(await app.statusOf('GET /users', { [name]: `${value}x` })).toBe(200)
  }
  // Nor is a request counted without the header, or with an empty one.
  expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
  expect(await app.statuses(2, 'GET /users', { Authorization: '' })).toEqual([200, 200])
  const keys = cases.map(({ key }) => key)
  await untilPasses(async () => expect(await listed(app)).toEqual(keys.toSorted()))
  await app.stop()

  const notices = app.notices.map(({ request, ...notice }) => notice)
  expect(notices.map(notice => 'key' in notice && notice.key)).toEqual(expect.arrayContaining(keys))
  const database = (await storedBytes(app.databaseUrl)).toString('latin1')
  for (const { value } of cases) expect(database).toContain(digestOf(value))
  for (const text of [database, JSON.stringify(app.logLines), JSON.stringify(notices)]) {
    expect(text).not.toContain(SECRET)
  }
})

const COMPOUND: Key = ['ip', 'header:Authorization']
const listedKey = JSON.stringify([ANN, digestOf(BEARER)])

test.each<[string, Key, string, string]>([
  ['credentials', 'header:Authorization', BEARER, BEARER],
  ['a digest', 'header:Authorization', digestOf(BEARER), digestOf(BEARER)],
  ['a compound key', COMPOUND, JSON.stringify([ANN, BEARER]), listedKey],
])(
  'bans add and lift take %s, and store and print the digest',
  async (_what, by, added, lifted) => {
    const app = await open(countedBy(by))
    const key = typeof by === 'string' ? digestOf(BEARER) : listedKey
    const output = await printed(app, 'bans', 'add', 'ban0', added)
    expect(output).toContain(digestOf(BEARER))
    expect(output).not.toContain(SECRET)
    expect(await listed(app)).toEqual([key])
    expect((await storedBytes(app.databaseUrl)).includes(SECRET)).toBe(false)
    expect(await printed(app, 'bans', 'lift', lifted)).not.toContain(SECRET)
    expect(await listed(app)).toEqual([])
    await app.bans().add({ rule: 'ban0', client: added })
    expect(await app.statusOf('GET /users', { Authorization: BEARER })).toBe(403)
  },
)
