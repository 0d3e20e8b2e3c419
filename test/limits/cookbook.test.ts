import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { type KeyedApp, openKeyedApp, unknownKey } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { type TestApp, temporaryFolder } from '../support/open-test-app.ts'
import { untilPasses } from '../support/until.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

const GUIDE = readFileSync(join(PROJECT, 'docs/limits.md'), 'utf8')

/** The block of code under each heading of the cookbook. */
const RECIPES = new Map(
  [...GUIDE.matchAll(/^### (.+)\n[^#]*?^```(json|js)\n([\s\S]*?)^```$/gm)].map(
    ([, title = '', language = '', code = '']) => [title, { language, code }],
  ),
)

type Clock = ReturnType<typeof createFakeClock>

const MINUTE_MS = 60_000

function create({ http }: TestApp, fields: Record<string, unknown> = {}, headers = {}) {
  return http.post('/users').set(headers).send(newUserBody(fields))
}

async function statusesOf(times: number, send: () => PromiseLike<{ status: number }>) {
  const statuses: number[] = []
  for (let count = 0; count < times; count++) statuses.push((await send()).status)
  return statuses
}

const SCENARIOS: Readonly<Record<string, (app: KeyedApp, clock: Clock) => Promise<void>>> = {
  'Sign-ups': async (app, clock) => {
    expect(await statusesOf(6, () => create(app))).toEqual([201, 201, 201, 201, 201, 429])
    clock.advance(MINUTE_MS)
    const again = () => create(app, { email: ' Ann@example.com' })
    expect(await statusesOf(4, again)).toEqual([201, 422, 422, 429])
  },

  Logins: async (app, clock) => {
    const { http } = app
    const verify = (address: string, email = 'ann@example.com') =>
      http
        .post('/password-verifications')
        .set('X-Forwarded-For', address)
        .send({ user: { email, password: 'wrong horse' } })
    const guess = () => verify('198.51.100.1')
    expect(await statusesOf(6, guess)).toEqual([422, 422, 422, 422, 422, 403])
    const read = () => http.get('/users').set('X-Forwarded-For', '198.51.100.1')
    expect((await read()).status).toBe(403)
    expect(await statusesOf(2, () => verify('198.51.100.2', 'b@example.com'))).toEqual([422, 422])
    // The first client used up five of ten.
    let address = 10
    const spread = () => verify(`198.51.100.${address++}`, ' Ann@example.com')
    expect(await statusesOf(6, spread)).toEqual([422, 422, 422, 422, 422, 429])
    clock.advance(60 * MINUTE_MS)
    expect((await read()).status).toBe(200)
    expect((await guess()).status).toBe(422)
  },

  'Wrong passwords': async (app, clock) => {
    const { http } = app
    const user = { email: 'ann@example.com', password: 'correct horse' }
    await create(app, user)
    const verify = (password: string) => () =>
      http.post('/password-verifications').send({ user: { ...user, password } })
    const right = verify(user.password)
    const wrong = verify('wrong horse')
    expect(new Set(await statusesOf(20, right))).toEqual(new Set([200]))
    expect(new Set(await statusesOf(9, wrong))).toEqual(new Set([422]))
    expect((await right()).status).toBe(200)
    expect((await wrong()).status).toBe(422)
    expect(await statusesOf(2, right)).toEqual([403, 403])
    clock.advance(60 * MINUTE_MS)
    expect((await right()).status).toBe(200)
  },

  'Lockout after logins': async ({ http }, clock) => {
    expect(await statusesOf(6, () => http.post('/login'))).toEqual([404, 404, 404, 404, 404, 403])
    expect((await http.get('/users')).status).toBe(403)
    clock.advance(60 * MINUTE_MS)
    expect((await http.get('/users')).status).toBe(200)
  },

  'Guessed API keys': async ({ http, bearers }, clock) => {
    const read = () => http.get('/users').set('Authorization', bearers[0] ?? '')
    const guess = () => http.get('/users').set('Authorization', `Bearer ${unknownKey()}`)
    expect(new Set(await statusesOf(19, guess))).toEqual(new Set([401]))
    expect((await read()).status).toBe(200)
    expect((await http.get('/nowhere')).status).toBe(401)
    expect((await guess()).status).toBe(403)
    expect((await read()).status).toBe(403)
    clock.advance(60 * MINUTE_MS)
    expect((await read()).status).toBe(200)
  },

  Scanners: async ({ http }) => {
    expect((await http.get('/users').set('User-Agent', 'SQLmap/1.8')).status).toBe(403)
    expect((await http.get('/users')).status).toBe(200)
    expect(await statusesOf(2, () => http.get('/blog//%2egit/config'))).toEqual([403, 403])
    expect((await http.get('/users')).status).toBe(200)
    expect((await http.get('/index.php')).status).toBe(403)
    expect((await http.get('/users')).status).toBe(403)
  },

  'Scanners by their 404s': async ({ http, logLines }, clock) => {
    let path = 0
    const scan = () => http.get(`/no-such-path-${path++}`)
    const told = expect.objectContaining({ rule: 'getting lost', msg: 'request tracked' })
    expect(new Set(await statusesOf(10, scan))).toEqual(new Set([404]))
    expect(logLines).not.toContainEqual(told)
    expect(new Set(await statusesOf(10, scan))).toEqual(new Set([404]))
    expect(await statusesOf(2, () => http.get('/users'))).toEqual([200, 200])
    expect(new Set(await statusesOf(10, scan))).toEqual(new Set([404]))
    expect((await http.get('/users')).status).toBe(403)
    await untilPasses(() => expect(logLines).toContainEqual(told))
    clock.advance(60 * MINUTE_MS)
    expect((await http.get('/users')).status).toBe(200)
  },

  'The office passes': async ({ http }) => {
    const from = (address: string) => () => http.get('/users').set('X-Forwarded-For', address)
    expect(new Set(await statusesOf(101, from('203.0.113.9')))).toEqual(new Set([200]))
    expect((await statusesOf(101, from('198.51.100.1'))).at(-1)).toBe(429)
  },

  'Exponential back-off': async (app, clock) => {
    const burst = () => statusesOf(11, () => create(app))
    expect((await burst()).filter(status => status === 201)).toHaveLength(10)
    clock.advance(10_000)
    // Level 2 did not count the request that level 1 refused.
    expect((await burst()).filter(status => status === 201)).toHaveLength(10)
    clock.advance(10_000)
    expect((await create(app)).headers.ratelimit).toMatch(/^"level 2"/)
    clock.advance(80_000)
    expect((await burst()).filter(status => status === 201)).toHaveLength(10)
    clock.advance(100_000)
    expect((await create(app)).headers.ratelimit).toMatch(/^"level 3"/)
  },

  'A limit for each domain': async app => {
    const at = (host: string) => create(app, {}, { Host: host })
    expect(new Set(await statusesOf(1000, () => at('a.example.co.uk')))).toEqual(new Set([201]))
    const refused = await at('b.example.co.uk:3000')
    expect(refused.status).toBe(302)
    expect(refused.headers.location).toBe('/busy')
    expect(refused.body.message).toBe('Too many signups on domain!')
    expect((await at('other.co.uk')).status).toBe(201)
  },

  'Try a rule first': async ({ http, logLines }) => {
    expect(await statusesOf(3, () => http.get('/users'))).toEqual([200, 200, 200])
    const told = { type: 'throttle', rule: 'strict', dryRun: true, msg: 'limit exceeded' }
    expect(logLines).toContainEqual(expect.objectContaining(told))
  },

  'Watch somebody': async ({ http, logLines }) => {
    const ask = () => http.get('/users').set('User-Agent', 'SpecialAgent')
    const told = expect.objectContaining({ rule: 'special agent', msg: 'request tracked' })
    await statusesOf(6, ask)
    expect(logLines).not.toContainEqual(told)
    expect((await ask()).status).toBe(200)
    expect(logLines).toContainEqual(told)
  },

  'Rules that compute': async ({ http }) => {
    const ask = (plan: string) => () =>
      http.get('/users').set({ 'User-Agent': 'x', 'X-Api-Key': plan, 'X-Plan': plan })
    expect(await statusesOf(3, ask('tin'))).toEqual([200, 200, 429])
    expect(await statusesOf(5, ask('gold'))).toEqual([200, 200, 200, 200, 429])
    expect((await ask('gold')()).body.message).toBe('Your plan is used up')
    expect((await http.get('/users').unset('User-Agent')).status).toBe(403)
  },
}

/** The recipes for services that require an API key. */
const KEYED: ReadonlySet<string> = new Set(['Guessed API keys'])

/** A file where no package is installed. */
function writeRules({ language, code }: { language: string; code: string }): string {
  const path = join(temporaryFolder(), language === 'json' ? 'limits.json' : 'limits.mjs')
  writeFileSync(path, code)
  return path
}

test('every recipe of docs/limits.md is tried', () => {
  expect([...RECIPES.keys()]).toEqual(Object.keys(SCENARIOS))
})

test.each(Object.entries(SCENARIOS))('the recipe %j does what it says', async (title, scenario) => {
  const recipe = RECIPES.get(title)
  if (recipe === undefined) throw new Error(`no recipe ${title}`)
  const clock = createFakeClock()
  const env = {
    LIMITS_FILE: writeRules(recipe),
    TRUST_PROXY: '1',
    API_KEYS: KEYED.has(title) ? 'required' : 'off',
  }
  const app = await openKeyedApp([{}], { env, now: clock.now })
  await scenario(app, clock)
})
