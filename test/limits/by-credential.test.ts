import { createHash } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { dirname } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { CHANNEL_NAME, type Notice } from '../../src/limits/notices.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { runCommand } from '../support/run-command.ts'
import { selectRows, storedBytes } from '../support/sql.ts'
import { until } from '../support/until.ts'

const SECRET = 'correct-horse-battery-staple'
const BEARER = `Bearer ${SECRET}`

const HOUR = { findtime: '1 hour', bantime: '1 hour' } as const

function digestOf(bytes: string | Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** Rules that count by a key in every way; their names and paths end with `number`. */
function countedBy(by: string | readonly string[], number = '') {
  const limit = { limit: 1, period: '1 hour', by }
  return {
    bans: [{ name: `ban${number}`, path: `/login${number}`, maxretry: 1, by, ...HOUR }],
    throttle: [{ name: `throttle${number}`, path: `/throttled${number}`, ...limit }],
    track: [{ name: `track${number}`, path: `/tracked${number}`, ...limit }],
    rateLimits: [{ name: `route${number}`, to: 1, within: '1 hour', by }],
  }
}

/** The keys and the texts of all notices about a service. */
function noticesOf({ port }: TestApp): readonly { readonly key: unknown; readonly text: string }[] {
  const notices: { key: unknown; text: string }[] = []
  const listen = (message: unknown) => {
    const { request, ...notice } = message as Notice
    if (request.socket.localPort !== port) return
    notices.push({ key: 'key' in notice ? notice.key : undefined, text: JSON.stringify(notice) })
  }
  subscribe(CHANNEL_NAME, listen)
  onTestFinished(() => void unsubscribe(CHANNEL_NAME, listen))
  return notices
}

/** What a command prints, which must succeed. */
async function printed({ databaseUrl, limitsPath }: TestApp, ...args: string[]): Promise<string> {
  const env = { DATABASE_URL: databaseUrl, LIMITS_FILE: limitsPath }
  const { code, stdout, stderr } = await runCommand({ cwd: dirname(limitsPath), env, args })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
}

/** The keys of the bans that `bans list` prints. */
async function listed(app: TestApp): Promise<string[]> {
  const bans: { readonly client: string }[] = JSON.parse(
    await printed(app, 'bans', 'list', '--json'),
  )
  return bans.map(({ client }) => client).toSorted()
}

async function untilSaved(app: TestApp, bans: number): Promise<void> {
  const count = async () => (await selectRows(app.databaseUrl, 'SELECT 1 AS one FROM bans')).length
  await until(async () => (await count()) === bans)
}

test('a rule counts credentials, and only their digest is in the log, in notices and in the database', async () => {
  const cases = [
    ['Authorization', 'Bearer '],
    ['AUTHORIZATION', 'Basic '],
    ['proxy-authorization', 'Digest response='],
    ['Cookie', 'session='],
  ].flatMap(([name = '', scheme]) =>
    [`header:${name}`, ['ip', `header:${name}`]].map((by, index) => {
      const value = `${scheme}${SECRET}-${name}-${index}`
      const digest = digestOf(value)
      return { name, value, by, key: index === 0 ? digest : JSON.stringify(['127.0.0.1', digest]) }
    }),
  )
  const rules = cases.map(({ by }, index) => countedBy(by, `-${index}`))
  const limits = Object.fromEntries(
    (['bans', 'throttle', 'track', 'rateLimits'] as const).map(kind => [
      kind,
      rules.flatMap(ofCase => ofCase[kind] as object[]),
    ]),
  )
  const app = await openTestApp({ limits })
  const notices = noticesOf(app)
  for (const [index, { name, value }] of cases.entries()) {
    const get = (path: string, sent = value) => app.http.get(path).set(name, sent)
    for (const [path, status] of [
      [`/throttled-${index}`, 404],
      [`/tracked-${index}`, 404],
      ['/users', 200],
      [`/throttled-${index}`, 429],
      [`/tracked-${index}`, 404],
      ['/users', 429],
      [`/login-${index}`, 404],
      ['/users', 403],
    ] as const) {
      await get(path).expect(status)
    }
    await get('/users', `${value}x`).expect(200)
  }
  // Nor is a request counted without the header, or with an empty one.
  for (const headers of [{}, { Authorization: '' }, {}, { Authorization: '' }]) {
    await app.http.get('/users').set(headers).expect(200)
  }
  await untilSaved(app, cases.length)
  const keys = cases.map(({ key }) => key)
  expect(await listed(app)).toEqual(keys.toSorted())
  await app.stop()

  expect(notices.map(({ key }) => key)).toEqual(expect.arrayContaining(keys))
  const database = (await storedBytes(app.databaseUrl)).toString('latin1')
  for (const { value } of cases) expect(database).toContain(digestOf(value))
  expect(database).not.toContain(SECRET)
  expect(JSON.stringify(app.logLines)).not.toContain(SECRET)
  expect(JSON.stringify(notices)).not.toContain(SECRET)
})

test('repeated headers and bytes beyond ASCII have the digest of what was sent', async () => {
  const app = await openTestApp({ limits: countedBy('header:authorization') })
  const first = Buffer.from('Bearer grün')
  for (const headers of [[first], [first, Buffer.from('Basic x')]]) {
    const lines = headers.map(sent => Buffer.concat([Buffer.from('Authorization: '), sent]))
    const head = ['GET /login HTTP/1.1', 'Host: localhost', 'Connection: close']
    const bytes = [...head.map(Buffer.from), ...lines].flatMap(line => [line, Buffer.from('\r\n')])
    await sendRaw(app.port, Buffer.concat([...bytes, Buffer.from('\r\n')])).ended
  }
  await untilSaved(app, 2)
  const joined = Buffer.concat([first, Buffer.from(', Basic x')])
  expect(await listed(app)).toEqual([digestOf(first), digestOf(joined)].toSorted())
})

const COMPOUND = ['ip', 'header:Authorization']
const listedKey = JSON.stringify(['127.0.0.1', digestOf(BEARER)])

test.each([
  ['credentials', 'header:Authorization', BEARER, BEARER],
  ['a digest', 'header:Authorization', digestOf(BEARER), digestOf(BEARER)],
  ['a compound key', COMPOUND, JSON.stringify(['127.0.0.1', BEARER]), listedKey],
])(
  'bans add and lift take %s, and store and print the digest',
  async (_what, by, added, lifted) => {
    const app = await openTestApp({ limits: countedBy(by) })
    const key = typeof by === 'string' ? digestOf(BEARER) : listedKey
    const output = await printed(app, 'bans', 'add', 'ban', added)
    expect(output).toContain(digestOf(BEARER))
    expect(output).not.toContain(SECRET)
    expect(await listed(app)).toEqual([key])
    expect((await storedBytes(app.databaseUrl)).includes(SECRET)).toBe(false)
    expect(await printed(app, 'bans', 'lift', lifted)).not.toContain(SECRET)
    expect(await listed(app)).toEqual([])
    await app.bans().add({ rule: 'ban', client: added })
    await app.http.get('/users').set('Authorization', BEARER).expect(403)
  },
)

test('limits test shows the digest, and no credentials', async () => {
  const app = await openTestApp({ limits: countedBy('header:Authorization') })
  const request = ['--path', '/login', '--header', `Authorization: ${BEARER}`, '--times', '2']
  const output = await printed(app, 'limits', 'test', app.limitsPath, ...request)
  expect(output).toContain(`for ${digestOf(BEARER)}`)
  expect(output).not.toContain(SECRET)
})

test('no rule that counts by credentials is warned of', async () => {
  const limits = countedBy(['ip', 'header:authorization'])
  const app = await openTestApp({ limits, env: { API_KEYS: 'required' } })
  expect(app.logLines.flatMap(({ warning }) => warning ?? [])).toEqual([])
})
