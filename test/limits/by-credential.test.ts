import { createHash } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { dirname } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CHANNEL_NAME, type Notice } from '../../src/limits/notices.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { type FinishedProcess, run } from '../support/spawn-service.ts'
import { selectRows, storedBytes } from '../support/sql.ts'
import { until } from '../support/until.ts'

const SECRET = 'correct-horse-battery-staple'

/** Each header with credentials, in several spellings. */
const CREDENTIALS: readonly (readonly [name: string, value: string])[] = [
  ['Authorization', `Bearer ${SECRET}`],
  ['AUTHORIZATION', `Basic ${Buffer.from(`ann:${SECRET}`).toString('base64')}`],
  ['proxy-authorization', `Digest response="${SECRET}"`],
  ['Cookie', `session=${SECRET}`],
]

const HOUR = { findtime: '1 hour', bantime: '1 hour' } as const

function digestOf(bytes: string | Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** What would give credentials away: they, and their part after the scheme. */
function tracesOf(value: string): readonly string[] {
  return [value, value.slice(value.indexOf(' ') + 1), SECRET]
}

/** The rules of a file that counts by a key in every way. */
function countedBy(by: string | string[]) {
  return {
    bans: [{ name: 'ban', path: '/login', maxretry: 1, by, ...HOUR }],
    throttle: [{ name: 'throttle', path: '/throttled', limit: 1, period: '1 hour', by }],
    track: [{ name: 'track', path: '/tracked', limit: 1, period: '1 hour', by }],
    rateLimits: [{ name: 'route', to: 1, within: '1 hour', by }],
  }
}

/** The keys and the texts of all notices about a service. Empty for one in processes of its own. */
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

function command(app: TestApp, ...args: string[]): Promise<FinishedProcess> {
  const env = { DATABASE_URL: app.databaseUrl, LIMITS_FILE: app.limitsPath }
  return run({ cwd: dirname(app.limitsPath), env, args })
}

/** The keys of the bans that `bans list` prints. */
async function listed(app: TestApp): Promise<string[]> {
  const { stdout } = await command(app, 'bans', 'list', '--json')
  return JSON.parse(stdout).map(({ client }: { readonly client: string }) => client)
}

async function untilSaved(app: TestApp, bans: number): Promise<void> {
  const count = async () => (await selectRows(app.databaseUrl, 'SELECT 1 AS one FROM bans')).length
  await until(async () => (await count()) === bans)
}

describe.each(CREDENTIALS)('by header:%s with %s', (name, value) => {
  test.each([
    ['alone', `header:${name}`, digestOf(value)],
    ['with the address', ['ip', `header:${name}`], JSON.stringify(['127.0.0.1', digestOf(value)])],
  ])('%s, only a digest is in the log, in notices and in the database', async (_how, by, key) => {
    const app = await openTestApp({ limits: countedBy(by) })
    const notices = noticesOf(app)
    const get = (path: string, sent = value) => app.http.get(path).set(name, sent)
    for (const path of ['/throttled', '/tracked', '/users']) await get(path)
    for (const [path, status] of [
      ['/throttled', 429],
      ['/tracked', 404],
      ['/users', 429],
      ['/login', 404],
      ['/users', 403],
    ] as const) {
      await get(path).expect(status)
      await get('/livez', `${value}x`).expect(200)
    }
    await get('/users', `${value}x`).expect(200)
    await app.http.get('/users').expect(200)
    await untilSaved(app, 1)
    expect(await listed(app)).toEqual([key])
    await app.stop()

    const places = {
      log: JSON.stringify(app.logLines),
      notices: notices.map(({ text }) => text).join('\n'),
      database: (await storedBytes(app.databaseUrl)).toString('latin1'),
    }
    expect(places.database).toContain(digestOf(value))
    expect(notices.map(notice => notice.key)).toEqual(expect.arrayContaining([key]))
    for (const [place, text] of Object.entries(places)) {
      for (const trace of tracesOf(value)) {
        expect([place, trace, text.includes(trace)]).toEqual([place, trace, false])
      }
    }
  })
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
  expect((await listed(app)).toSorted()).toEqual([digestOf(first), digestOf(joined)].toSorted())
})

test('a request without the header, or with an empty one, is not counted', async () => {
  const app = await openTestApp({ limits: countedBy('header:authorization') })
  for (let time = 0; time < 3; time++) {
    await app.http.get('/users').expect(200)
    await app.http.get('/users').set('Authorization', '').expect(200)
  }
})

describe('bans', () => {
  const value = `Bearer ${SECRET}`

  test.each([
    ['the credentials', value],
    ['their digest', digestOf(value)],
  ])('add and lift take %s and store the digest', async (_what, given) => {
    const app = await openTestApp({ limits: countedBy('header:Authorization') })
    const added = await command(app, 'bans', 'add', 'ban', given)
    expect(added).toMatchObject({ code: 0, stderr: '' })
    expect(added.stdout).toContain(digestOf(value))
    expect(added.stdout).not.toContain(SECRET)
    const status = async () => (await app.http.get('/users').set('Authorization', value)).status
    await until(async () => (await status()) === 403)
    expect((await storedBytes(app.databaseUrl)).includes(SECRET)).toBe(false)
    const lifted = await command(app, 'bans', 'lift', given)
    expect(lifted).toMatchObject({ code: 0, stderr: '' })
    expect(lifted.stdout).not.toContain(SECRET)
    expect(await listed(app)).toEqual([])
  })

  test('add and lift take the items of a compound key as bans list shows them', async () => {
    const app = await openTestApp({ limits: countedBy(['ip', 'header:Authorization']) })
    const key = JSON.stringify(['127.0.0.1', digestOf(value)])
    const given = JSON.stringify(['127.0.0.1', value])
    expect(await command(app, 'bans', 'add', 'ban', given)).toMatchObject({ code: 0 })
    expect(await listed(app)).toEqual([key])
    expect(await command(app, 'bans', 'lift', key)).toMatchObject({ code: 0 })
    expect(await listed(app)).toEqual([])
  })
})

test('limits test shows the digest, and no credentials', async () => {
  const app = await openTestApp({ limits: countedBy('header:Authorization') })
  const header = `Authorization: Bearer ${SECRET}`
  const options = ['--method', 'GET', '--path', '/login', '--header', header, '--times', '2']
  const { stdout } = await command(app, 'limits', 'test', app.limitsPath, ...options)
  expect(stdout).toContain(`for ${digestOf(`Bearer ${SECRET}`)}`)
  expect(stdout).not.toContain(SECRET)
})

test('no rule that counts by credentials is warned of', async () => {
  const limits = countedBy(['ip', 'header:authorization'])
  const app = await openTestApp({ limits, env: { API_KEYS: 'required' } })
  expect(app.logLines.flatMap(({ warning }) => warning ?? [])).toEqual([])
})
