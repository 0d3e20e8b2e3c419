import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { unknownKey } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import {
  type From,
  HOUR,
  type LimitedApp,
  MINUTE,
  openLimitedApp,
  SECOND,
} from '../support/limited-app.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { CLOSING, requestBytes, sendRaw } from '../support/raw-http.ts'

const GUIDE = readFileSync(new URL('../../docs/limits.md', import.meta.url), 'utf8')

/** The block of code under each heading of the cookbook. */
const RECIPES = new Map(
  [...GUIDE.matchAll(/^### (.+)\n[^#]*?^```(json|js)\n([\s\S]*?)^```$/gm)].map(
    ([, title = '', language = '', code = '']) => [title, { language, code }],
  ),
)

function create({ ask }: LimitedApp, fields: Record<string, unknown> = {}, from: From = {}) {
  return ask('POST /users', from).send(newUserBody(fields))
}

async function statusesOf(times: number, send: () => PromiseLike<{ status: number }>) {
  const statuses: number[] = []
  for (let count = 0; count < times; count++) statuses.push((await send()).status)
  return statuses
}

/** The same status `count` times. */
function times(count: number, status: number): number[] {
  return Array(count).fill(status)
}

const SCENARIOS: Readonly<Record<string, (app: LimitedApp) => Promise<void>>> = {
  'Sign-ups': async app => {
    expect(await statusesOf(6, () => create(app))).toEqual([...times(5, 201), 429])
    app.clock.advance(MINUTE)
    const again = () => create(app, { email: ' Ann@example.com' })
    expect(await statusesOf(4, again)).toEqual([201, 422, 422, 429])
  },

  Logins: async ({ ask, statusOf, clock }) => {
    const verify = (client: string, email = 'ann@example.com') =>
      ask('POST /password-verifications', client).send({ user: { email, password: 'wrong horse' } })
    const guess = () => verify('198.51.100.1')
    expect(await statusesOf(6, guess)).toEqual([...times(5, 422), 403])
    expect(await statusOf('GET /users', '198.51.100.1')).toBe(403)
    expect(await statusesOf(2, () => verify('198.51.100.2', 'b@example.com'))).toEqual([422, 422])
    // The first client used up five of ten.
    let client = 10
    const spread = () => verify(`198.51.100.${client++}`, ' Ann@example.com')
    expect(await statusesOf(6, spread)).toEqual([...times(5, 422), 429])
    clock.advance(HOUR)
    expect(await statusOf('GET /users', '198.51.100.1')).toBe(200)
    expect((await guess()).status).toBe(422)
  },

  'Lockout after logins': async ({ statuses, statusOf, clock }) => {
    expect(await statuses(6, 'POST /login')).toEqual([...times(5, 404), 403])
    expect(await statusOf('GET /users')).toBe(403)
    clock.advance(HOUR)
    expect(await statusOf('GET /users')).toBe(200)
  },

  'Guessed API keys': async ({ statusOf, clock, bearers }) => {
    const read = () => statusOf('GET /users', { Authorization: bearers[0] ?? '' })
    const guess = () => statusOf('GET /users', { Authorization: `Bearer ${unknownKey()}` })
    for (let count = 0; count < 19; count++) expect(await guess()).toBe(401)
    expect(await read()).toBe(200)
    expect(await statusOf('GET /nowhere')).toBe(401)
    expect(await guess()).toBe(403)
    expect(await read()).toBe(403)
    clock.advance(HOUR)
    expect(await read()).toBe(200)
  },

  Scanners: async ({ statusOf, statuses }) => {
    expect(await statusOf('GET /users', { 'User-Agent': 'SQLmap/1.8' })).toBe(403)
    expect(await statusOf('GET /users')).toBe(200)
    expect(await statuses(2, 'GET /blog//%2egit/config')).toEqual([403, 403])
    expect(await statusOf('GET /users')).toBe(200)
    expect(await statusOf('GET /index.php')).toBe(403)
    expect(await statusOf('GET /users')).toBe(403)
  },

  'Exponential back-off': async app => {
    const burst = () => statusesOf(11, () => create(app))
    const tenPass = [...times(10, 201), 429]
    expect(await burst()).toEqual(tenPass)
    app.clock.advance(10 * SECOND)
    // Level 2 did not count the request that level 1 refused.
    expect(await burst()).toEqual(tenPass)
    app.clock.advance(10 * SECOND)
    expect((await create(app)).headers.ratelimit).toMatch(/^"level 2"/)
    app.clock.advance(80 * SECOND)
    expect(await burst()).toEqual(tenPass)
    app.clock.advance(100 * SECOND)
    expect((await create(app)).headers.ratelimit).toMatch(/^"level 3"/)
  },

  'A limit for each domain': async app => {
    const at = (host: string) => create(app, {}, { Host: host })
    const one = requestBytes('DELETE /users/7', { Host: 'a.example.co.uk' })
    const last = requestBytes('DELETE /users/7', { Host: 'a.example.co.uk', ...CLOSING })
    const deletes = await sendRaw(app.port, Buffer.concat([...Array(999).fill(one), last])).ended
    expect(deletes.map(({ status }) => status)).toEqual(times(1000, 404))
    const { status, headers, body } = await at('b.example.co.uk:3000')
    expect([status, headers.location, headers['retry-after']]).toEqual([302, '/busy', '10'])
    expect(body).toMatchObject({ message: 'Too many signups on domain!', code: 302 })
    expect((await at('other.co.uk')).status).toBe(201)
  },

  'Rules that compute': async ({ ask, statuses }) => {
    const plan = (name: string) => ({ 'User-Agent': 'x', 'X-Api-Key': name, 'X-Plan': name })
    expect(await statuses(3, 'GET /users', plan('tin'))).toEqual([200, 200, 429])
    expect(await statuses(5, 'GET /users', plan('gold'))).toEqual([...times(4, 200), 429])
    expect((await ask('GET /users', plan('gold'))).body.message).toBe('Your plan is used up')
    expect((await ask('GET /users').unset('User-Agent')).status).toBe(403)
  },
}

/** The recipes for services that require an API key. */
const KEYED: ReadonlySet<string> = new Set(['Guessed API keys'])

test('every recipe of docs/limits.md is found', () => {
  expect([...RECIPES.keys()]).toEqual(expect.arrayContaining(Object.keys(SCENARIOS)))
  expect(RECIPES.size).toBeGreaterThan(Object.keys(SCENARIOS).length)
})

test.each([...RECIPES])('the recipe %j starts, and does what it says', async (title, recipe) => {
  const { language, code } = recipe
  // In a folder where no package is installed.
  const path = join(temporaryFolder(), language === 'json' ? 'limits.json' : 'limits.mjs')
  writeFileSync(path, code)
  const options = { env: { LIMITS_FILE: path }, ...(KEYED.has(title) && { keys: [{}] }) }
  await SCENARIOS[title]?.(await openLimitedApp({}, options))
})

test('with limits.example.json, guesses by id are limited as those by address are', async () => {
  const path = new URL('../../limits.example.json', import.meta.url)
  const app = await openLimitedApp(JSON.parse(readFileSync(path, 'utf8')))
  const { id, email } = (await create(app, { password: 'correct horse' })).body
  let clients = 0
  const guess = (login: object) => {
    const from = `198.51.100.${++clients}`
    return app.ask('POST /password-verifications', from).send({ user: { ...login, password: 'x' } })
  }
  for (const login of [{ id }, { email }]) {
    const statuses = await statusesOf(12, () => guess(login))
    expect(statuses).toEqual([...times(10, 422), ...times(2, 429)])
  }
  expect((await guess({ id: id + 1 })).status).toBe(422)
})
