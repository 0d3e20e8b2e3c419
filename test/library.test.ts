import { once } from 'node:events'
import { existsSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import { join } from 'node:path'
import { duplexPair } from 'node:stream'
import { runInNewContext } from 'node:vm'
import express, { type RequestHandler } from 'express'
import pino from 'pino'
import supertest from 'supertest'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { VARIABLES } from '../src/config/settings.ts'
import { readLibrarySettings } from '../src/library/library-settings.ts'
import {
  createUserRecords,
  OperatorError,
  type UserRecordsOptions,
  type UserRecordsSettings,
} from '../src/library.ts'
import { addKey } from './support/api-keys.ts'
import { newUserBody } from './support/builders.ts'
import { execute } from './support/databases.ts'
import { listen } from './support/listen.ts'
import { countUsers } from './support/many-users.ts'
import { temporaryFolder } from './support/open-test-app.ts'
import { sendRaw } from './support/raw-http.ts'

/** The service in memory, unless the settings say otherwise; closed after the test. */
async function open(settings: UserRecordsSettings = {}, options: UserRecordsOptions = {}) {
  const records = await createUserRecords({ DATABASE_URL: ':memory:', ...settings }, options)
  onTestFinished(() => records.close())
  return { records, http: supertest(records.app) }
}

/** The same under `/api` of another application, behind a middleware of it. */
async function openMounted(settings: UserRecordsSettings = {}, middleware?: RequestHandler) {
  const { records } = await open(settings)
  const parent = express()
  if (middleware !== undefined) parent.use(middleware)
  parent.use('/api', records.app)
  parent.get('/other', (_request, response) => void response.send('other'))
  return supertest(parent)
}

/** Like the URL of jsdom. */
class OtherUrl {
  readonly href: string

  constructor(href: string) {
    this.href = href
  }

  get [Symbol.toStringTag]() {
    return 'URL'
  }

  toString() {
    return this.href
  }
}

const readRaw = express.raw({ type: '*/*' })

const readBytes: RequestHandler = (request, response, next) =>
  readRaw(request, response, error => {
    request.body = new Uint8Array(request.body)
    next(error)
  })

/** A logger, and the lines that it has written. */
function openLog(level = 'info') {
  const lines: Record<string, unknown>[] = []
  return { lines, logger: pino({ level }, { write: line => lines.push(JSON.parse(line)) }) }
}

function databaseFile(): string {
  return join(temporaryFolder(), 'users.db')
}

/** The lines of the refusal of settings. */
async function problemsOf(settings: object, options?: object): Promise<readonly string[]> {
  const error: unknown = await createUserRecords(settings, options).then(
    records => records.close().then(() => new Error('the settings were accepted')),
    reason => reason,
  )
  if (!(error instanceof OperatorError)) throw error
  return error.problems
}

/** Twenty creates at once. */
function createMany({ http }: Awaited<ReturnType<typeof open>>) {
  return Array.from({ length: 20 }, () => http.post('/users').send(newUserBody()))
}

describe('createUserRecords', () => {
  test('gives an application that serves users, also to a server of node:http', async () => {
    const { records } = await open()
    const server = createServer(records.app)
    onTestFinished(() => void server.close())
    const http = supertest(server)
    const { body, headers } = await http.post('/users').send(newUserBody()).expect(201)
    expect(headers.location).toBe(`/users/${body.id}`)
    await http.get(`/users/${body.id}`).expect(200, body)
    const rename = { user: { name: 'Bea' } }
    await http.put('/users/1').send(rename).expect(200)
    await http.delete('/users/1').expect(204)
    await http.get('/users').expect(200, [])
    for (const path of ['/', '/docs', '/openapi.json', '/livez', '/readyz']) {
      await http.get(path).set('Accept', '*/*').expect(200)
    }
  })

  test('answers to any host, unless ALLOWED_HOSTS says otherwise', async () => {
    const { http } = await open()
    await http.get('/users').set('Host', 'users.example').expect(200)
    const { http: limited } = await open({ ALLOWED_HOSTS: ['other.example', 'users.example'] })
    await limited.get('/users').set('Host', 'users.example').expect(200)
    await limited.get('/users').set('Host', 'localhost').expect(421)
  })

  test('asks for keys with API_KEYS=required, also under a mount path', async () => {
    const DATABASE_URL = databaseFile()
    const Authorization = `Bearer ${await addKey(DATABASE_URL, { scopes: ['users:read'] })}`
    const http = await openMounted({ DATABASE_URL, API_KEYS: 'required' })
    for (const path of ['/api/', '/api/docs', '/api/openapi.json', '/api/livez', '/other']) {
      await http.get(path).set('Accept', '*/*').expect(200)
    }
    for (const path of ['/api/users', '/api/users/1', '/api/nowhere']) {
      await http.get(path).expect(401)
    }
    await http.get('/api/users').set({ Authorization }).expect(200, [])
    await http.post('/api/users').set({ Authorization }).send(newUserBody()).expect(403)
  })

  test('catches no signal and nothing else that happens to the process', async () => {
    const listeners = () =>
      process.eventNames().map(name => [name, process.listenerCount(name as 'exit')])
    const before = listeners()
    const { http } = await open({ LIMITS: { throttle: [{ limit: 9, period: 60 }] } })
    await http.get('/users').expect(200)
    expect(listeners()).toEqual(before)
  })

  test('hands its lines to the logger that is passed, at LOG_LEVEL where that is given', async () => {
    const { lines, logger } = openLog()
    const loud = await open({}, { logger })
    await loud.http.get('/users/1').expect(404)
    expect(lines).toMatchObject([{ msg: 'request', route: '/users/{id}', status: 404 }])
    const quiet = await open({ LOG_LEVEL: 'error' }, { logger })
    await quiet.http.get('/users/1').expect(404)
    expect(lines).toHaveLength(1)
  })
})

describe('reset', () => {
  test('empties the database, and gives the same ids again', async () => {
    const { records, http } = await open()
    const key = { 'Idempotency-Key': 'once' }
    await http.post('/users').set(key).send(newUserBody()).expect(201)
    const before = await http.get('/users').expect(200)
    await records.reset()
    await http.get('/users').expect(200, [])
    const { body, headers } = await http.post('/users').set(key).send(newUserBody()).expect(201)
    expect(body.id).toBe(1)
    expect(headers).not.toHaveProperty('idempotency-replayed')
    await http.get('/users').set('If-None-Match', `${before.headers.etag}`).expect(200)
  })

  test('forgets counters and bans', async () => {
    const { records, http } = await open({
      LIMITS: {
        rateLimits: [{ to: 1, within: 3600, only: ['list'] }],
        bans: [{ path: '/wp-admin', maxretry: 1, findtime: 3600, bantime: 3600 }],
      },
    })
    for (let round = 0; round < 2; round++) {
      await http.get('/users').expect(200)
      await http.get('/users').expect(429)
      await http.get('/wp-admin')
      await http.get('/users/1').expect(403)
      await records.reset()
    }
    await http.get('/users/1').expect(404)
  })

  test('may be called again before it is done, and amid requests', async () => {
    const opened = await open()
    const { records } = opened
    const resets = [records.reset(), records.reset(), records.reset()]
    const [answers] = await Promise.all([Promise.all(createMany(opened)), ...resets])
    // What is under way when a database goes is refused like at every end, and nothing else happens to it.
    for (const { status } of answers) expect([201, 503]).toContain(status)
    await records.reset()
    expect(await countUsers(opened)).toBe(0)
  })

  test('is refused for a file, which stays as it is, and after close', async () => {
    const inFile = await open({ DATABASE_URL: databaseFile() })
    await inFile.http.post('/users').send(newUserBody()).expect(201)
    const refusal = /reset\(\) empties databases in memory only/
    await expect(inFile.records.reset()).rejects.toThrow(refusal)
    expect(await countUsers(inFile)).toBe(1)
    const { records } = await open()
    await records.close()
    await expect(records.reset()).rejects.toThrow('reset() was called after close()')
  })

  test('may be followed by close at once', async () => {
    const { records, http } = await open()
    await Promise.all([records.reset(), records.reset(), records.close()])
    await http.get('/users').expect(503)
  })
})

describe('close', () => {
  test('may be called twice; later requests are refused as by a service that stops', async () => {
    const { records, http } = await open()
    await Promise.all([records.close(), records.close()])
    await records.close()
    for (const path of ['/users', '/users/1', '/nowhere']) {
      const { body, headers } = await http.get(path).expect(503)
      expect(body).toMatchObject({ message: 'The service is shutting down, please try again' })
      expect(headers['retry-after']).toBe('1')
    }
    await http.get('/livez').expect(200)
    await http.get('/readyz').expect(503)
  })

  test('ends what is being written, which a file keeps until it is opened again', async () => {
    const DATABASE_URL = databaseFile()
    const opened = await open({ DATABASE_URL })
    const answers = createMany(opened).map(request => request.then(({ status }) => status))
    await Promise.race(answers)
    await opened.records.close()
    const created = (await Promise.all(answers)).filter(status => status === 201).length
    expect(created).toBeGreaterThan(0)
    expect(await countUsers(await open({ DATABASE_URL }))).toBe(created)
  })
})

describe('settings', () => {
  test('are taken as text or as their natural type', async () => {
    const { http } = await open({
      PASSWORD_MIN_LENGTH: 12,
      BODY_LIMIT: 200,
      CORS_ORIGINS: ['https://a.example', 'https://b.example'],
      TRUST_PROXY: 1,
      MAX_WAITING_WRITES: '500',
      MAX_WAITING_PASSWORDS: undefined,
    })
    const create = (fields: Record<string, unknown>) =>
      http.post('/users').send(newUserBody(fields))
    const { body } = await create({ password: 'elevenchars' }).expect(422)
    expect(body.errors).toEqual({ password: ['is too short (minimum is 12 characters)'] })
    await create({ name: 'A'.repeat(200) }).expect(413)
    const { headers } = await http.get('/users').set('Origin', 'https://b.example')
    expect(headers['access-control-allow-origin']).toBe('https://b.example')
    const file = new URL(`file://${databaseFile()}`)
    await (await open({ DATABASE_URL: file, TRUST_PROXY: false })).http.get('/users').expect(200)
  })

  test('PASSWORD_BLOCKLIST is opened by each service, again by reset, and closed with it', async () => {
    const folder = temporaryFolder()
    const PASSWORD_BLOCKLIST = join(folder, 'common.txt')
    writeFileSync(PASSWORD_BLOCKLIST, 'correct horse\n')
    const opened = [await open({ PASSWORD_BLOCKLIST }), await open({ PASSWORD_BLOCKLIST })]
    for (const { http, records } of opened) {
      await records.reset()
      const create = (password: string) => http.post('/users').send(newUserBody({ password }))
      await create('Correct horse').expect(422)
      await create('another horse').expect(201)
      await records.close()
    }
    if (existsSync('/proc/self/fd')) {
      const fds = readdirSync('/proc/self/fd').map(fd => `/proc/self/fd/${fd}`)
      const targets = fds.filter(existsSync).map(fd => readlinkSync(fd))
      expect(targets).not.toContain(PASSWORD_BLOCKLIST)
    }
    expect(await problemsOf({ PASSWORD_BLOCKLIST: folder })).toEqual([
      expect.stringContaining(`PASSWORD_BLOCKLIST was "${folder}", but it is a folder; `),
    ])
  })

  test('may be of another realm, as in Jest', async () => {
    const file = databaseFile()
    const settings: UserRecordsSettings = runInNewContext(
      `({
        DATABASE_URL: new URL('file://${file}'),
        CORS_ORIGINS: ['https://a.example'],
        LIMITS: { blocklist: [{ userAgent: [/nikto/gi, 'sqlmap*'] }] },
      })`,
      // Test environments have a URL of their own, which is no instance of Node's.
      { URL: OtherUrl },
    )
    const { http } = await open(settings)
    await http.post('/users').send(newUserBody()).expect(201)
    for (const agent of ['NIKTO', 'NIKTO', 'sqlmap/1']) {
      await http.get('/users').set('User-Agent', agent).expect(403)
    }
    expect(existsSync(file)).toBe(true)
  })

  test.each(Object.entries(VARIABLES))('%s is taken, or refused by name', async (name, kind) => {
    const ofServer =
      /^(?:HOST|PORT|MANAGEMENT_(?:PORT|HOST|TOKEN)|(?:KEEP_ALIVE|SHUTDOWN)_TIMEOUT|MAX_(?:CONNECTIONS|EVENT_LOOP_DELAY|WAITING_REQUESTS))$/
    const withoutDefault: Readonly<Record<string, string>> = {
      ...{ TRUST_PROXY: '1', CORS_ORIGINS: '*', LIMITS_FILE: 'none.json', MANAGEMENT_PORT: '0' },
      ...{ MANAGEMENT_TOKEN: 'x'.repeat(16), PASSWORD_BLOCKLIST: 'none.txt' },
      ...{ REDIS_URL: 'redis://127.0.0.1', ALLOWED_HOSTS: '*' },
    }
    const value = withoutDefault[name] ?? kind.default
    expect(value, `add a value of ${name} to withoutDefault`).toBeDefined()
    const problems = await problemsOf({ [name]: value, LOG_LEVLE: 'info' })
    const why = `${name} is a setting of the server, which here belongs to the program around the service`
    expect(problems.filter(line => !line.startsWith('LOG_LEVLE'))).toEqual(
      ofServer.test(name) ? [why] : [],
    )
  })

  test('may be in files that DATABASE_URL_FILE and REDIS_URL_FILE name', async () => {
    const secret = join(temporaryFolder(), 'database_url')
    const path = databaseFile()
    writeFileSync(secret, `${path}\n`)
    const { http } = await open({ DATABASE_URL: undefined, DATABASE_URL_FILE: secret })
    await http.post('/users').send(newUserBody()).expect(201)
    expect(existsSync(path)).toBe(true)
    const both = { REDIS_URL: 'redis://127.0.0.1', REDIS_URL_FILE: secret }
    expect(await problemsOf(both)).toEqual([
      expect.stringMatching(/^REDIS_URL_FILE was .+ is set in the settings too/),
    ])
    expect(await problemsOf({ MANAGEMENT_TOKEN_FILE: secret })).toEqual([
      expect.stringMatching(/^MANAGEMENT_TOKEN_FILE is a setting of the server/),
    ])
  })

  test.each<[unknown, unknown?]>([
    [null],
    [[]],
    [5],
    [':memory:'],
    [{}, { logger: {} }],
    [{}, { logger: true }],
    [{}, { logger: null }],
  ])('%j and options %j of no type are refused with a line', async (settings, options) => {
    const must = /^(the settings must be an object|logger must be a logger of pino)/
    expect(await problemsOf(settings as object, options as object)).toEqual([
      expect.stringMatching(must),
    ])
  })

  test('that are wrong are refused with a line for each, all at once', async () => {
    const problems = await problemsOf({
      PORT: 3000,
      DATABASE_URI: ':memory:',
      TRUST_PROXY: true,
      BODY_LIMIT: Symbol('much'),
      PASSWORD_MIN_LENGTH: 0,
      LIMITS: { throttle: [{ limit: 0, period: 'never' }] },
      LIMITS_FILE: 'limits.json',
    })
    expect(problems).toEqual([
      expect.stringMatching(/^PORT is a setting of the server/),
      'DATABASE_URI is not a setting; did you mean DATABASE_URL?',
      'BODY_LIMIT must be text or a value of its kind',
      expect.stringMatching(/^TRUST_PROXY was "true"; it may be /),
      expect.stringMatching(/^PASSWORD_MIN_LENGTH was "0"; it may be /),
      'LIMITS and LIMITS_FILE were both given; rules come from one of them',
      expect.stringMatching(/^LIMITS: throttle\[0\]: limit /),
      expect.stringMatching(/^LIMITS: throttle\[0\]: period /),
    ])
  })

  test.each<[setting: string, value: unknown, says: string]>([
    // A list without hosts cannot mean what "unset" does, which is any host.
    ['ALLOWED_HOSTS', [], ' was ""; it may be '],
    ['ALLOWED_HOSTS', [''], ' was ""; it may be '],
    ['ALLOWED_HOSTS', ['a.example', ''], ' was "a.example,"; it may be '],
    ['ALLOWED_HOSTS', [' '], ' was " "; it may be '],
    ['CORS_ORIGINS', [''], ' was ""; it may be '],
    ['TRUST_PROXY', [''], ' was ""; it may be '],
    // Only lists may be lists.
    ['API_KEYS', [], ' must be text or a value of its kind'],
    ['DATABASE_URL', ['a.db', 'b.db'], ' must be text or a value of its kind'],
    ['LIMITS_FILE', [], ' must be text or a value of its kind'],
    ['LIMITS', null, ': '],
    // No default in its place.
    ['DATABASE_URL', false, ' must be text or a value of its kind'],
  ])('with %s as %j are refused by its name', async (setting, value, says) => {
    const line = expect.stringMatching(`^${setting}${says}`)
    expect(await problemsOf({ [setting]: value })).toEqual([line])
  })

  test('that are off may be false', async () => {
    const off = {
      WEBHOOKS: false,
      TRUST_PROXY: false,
      CORS_ORIGINS: false,
      API_KEYS: false,
    } as const
    const { config } = await readLibrarySettings(off)
    expect(config).toEqual({ ...(await readLibrarySettings({})).config, webhooks: 'off' })
  })

  test('without any proxy or origin in their lists trust and allow none', async () => {
    const { http } = await open({ TRUST_PROXY: [], CORS_ORIGINS: [] })
    const { headers } = await http.get('/users').set('Origin', 'https://a.example').expect(200)
    expect(headers).not.toHaveProperty('access-control-allow-origin')
  })

  test('with rules that find no table of bans are refused, and leave no file open', async () => {
    const DATABASE_URL = databaseFile()
    const LIMITS = { bans: [{ maxretry: 1, findtime: 1, bantime: 1 }] }
    await (await createUserRecords({ DATABASE_URL, LIMITS })).close()
    execute(DATABASE_URL, 'DROP TABLE bans')
    await expect(createUserRecords({ DATABASE_URL, LIMITS })).rejects.toThrow()
  })

  test('whose database cannot be opened are refused by its name', async () => {
    const file = databaseFile()
    writeFileSync(file, 'no database at all')
    expect(await problemsOf({ DATABASE_URL: file })).toEqual([
      expect.stringMatching(/^DATABASE_URL was .+, but it is not a SQLite database/),
    ])
  })
})

describe('a date that a test has faked', () => {
  const DAY_MS = 86_400_000
  const START = Date.parse('2040-01-31')

  /** Fakes the date only, and returns what sets it to some milliseconds after `START`. */
  function fakeDate(): (ms: number) => void {
    vi.useFakeTimers({ toFake: ['Date'], now: START })
    onTestFinished(() => void vi.useRealTimers())
    return ms => void vi.setSystemTime(START + ms)
  }

  test('is that of the times of users', async () => {
    const { http } = await open()
    const setDate = fakeDate()
    const { body } = await http.post('/users').send(newUserBody()).expect(201)
    expect(body).toMatchObject({ created_at: '2040-01-31T00:00:00.000Z' })
    setDate(DAY_MS)
    const changed = await http.patch('/users/1').send({ user: { name: 'Bea' } })
    expect(changed.body).toMatchObject({ updated_at: '2040-02-01T00:00:00.000Z' })
  })

  const DAY = '1 day'

  test.each([
    ['a throttle', { throttle: [{ limit: 1, period: DAY }] }, 429],
    ['a rate limit', { rateLimits: [{ to: 1, within: DAY, only: ['create'] }] }, 429],
    ['a ban', { bans: [{ maxretry: 1, findtime: 1, bantime: DAY }] }, 403],
  ] as const)('ends the window of %s, to the millisecond', async (_name, LIMITS, refused) => {
    const { http } = await open({ DATABASE_URL: databaseFile(), LIMITS })
    const setDate = fakeDate()
    const statusOf = async () => (await http.post('/users').send({})).statusCode
    expect(await statusOf()).toBe(422)
    setDate(DAY_MS - 1)
    expect(await statusOf()).toBe(refused)
    setDate(DAY_MS)
    expect(await statusOf()).toBe(422)
  })

  test('ends the time in which strikes count', async () => {
    const { http } = await open({ LIMITS: { bans: [{ maxretry: 2, findtime: DAY, bantime: 1 }] } })
    const setDate = fakeDate()
    await http.get('/nowhere').expect(404)
    setDate(DAY_MS)
    for (const status of [404, 404, 403]) await http.get('/nowhere').expect(status)
  })

  test('ends Idempotency-Keys and API keys, to the millisecond', async () => {
    const DATABASE_URL = databaseFile()
    const key = await addKey(DATABASE_URL, { expiresAt: START + 2 * DAY_MS })
    const { http } = await open({ DATABASE_URL, API_KEYS: 'required' })
    const setDate = fakeDate()
    const body = newUserBody()
    const headers = { Authorization: `Bearer ${key}`, 'Idempotency-Key': 'one' }
    const create = () => http.post('/users').set(headers).send(body)
    await create().expect(201)
    setDate(DAY_MS - 1)
    await create().expect(201).expect('Idempotency-Replayed', 'true')
    setDate(DAY_MS)
    await create().expect(422)
    setDate(2 * DAY_MS - 1)
    await create().expect(422)
    setDate(2 * DAY_MS)
    await create().expect(401)
  })

  test('that goes back leaves everything as it was', async () => {
    const { http } = await open({ LIMITS: { throttle: [{ limit: 1, period: DAY }] } })
    await http.get('/users').expect(200)
    const setDate = fakeDate()
    await http.get('/users').expect(200)
    setDate(-DAY_MS)
    await http.get('/users').expect(429)
    vi.useRealTimers()
    await http.get('/users').expect(429)
  })
})

describe('under the path of another application', () => {
  test('an error tells the resource as ever, whatever the parent puts into the request', async () => {
    const http = await openMounted({}, (request, _response, next) => {
      Object.assign(request, { resource: { owner: 'ann' } })
      next()
    })
    expect((await http.get('/api/users/7')).body).toMatchObject({ resource: 'User', code: 404 })
    expect((await http.get('/api/nowhere')).body).toMatchObject({ resource: 'Request', code: 404 })
  })

  test('the document, the page of the interface and the home page point below it', async () => {
    const http = await openMounted()
    const home = await http.get('/api').set('Accept', 'application/json').expect(200)
    expect(home.body).toMatchObject({ docs: '/api/docs', users: '/api/users' })
    for (const from of ['/api', '/api/docs']) {
      const page = await http.get(from).set('Accept', 'text/html').expect(200)
      const targets = [...page.text.matchAll(/(?:href|src)="([^"#]+)"/g)]
        .map(([, target]) => `${target}`)
        .filter(target => !target.startsWith('data:'))
      expect(targets.length).toBeGreaterThan(2)
      for (const target of targets) {
        const { pathname } = new URL(target, `http://localhost${from}`)
        expect(pathname).toMatch(/^\/api(?:\/|$)/)
        await http.get(pathname).set('Accept', '*/*').expect(200)
      }
    }
  })

  test('a response whose head another middleware refuses leaves no header to the 500', async () => {
    const http = await openMounted({}, (_request, response, next) => {
      const { writeHead } = response
      response.writeHead = () => {
        response.writeHead = writeHead
        throw new Error('refused')
      }
      next()
    })
    const { headers } = await http.post('/api/users').send(newUserBody()).expect(500)
    expect([headers.location, headers.etag, headers.vary]).toEqual([undefined, undefined, 'Accept'])
  })

  test('limits see paths without it', async () => {
    const http = await openMounted({
      LIMITS: {
        blocklist: [{ path: '/users/7' }],
        rateLimits: [{ to: 1, within: 3600, only: ['create'], by: 'body:user.email' }],
      },
    })
    await http.get('/api/users/7').expect(403)
    await http.get('/api/users/8').expect(404)
    const body = newUserBody()
    await http.post('/api/users').send(body).expect(201)
    await http.post('/api/users').send(body).expect(429)
  })

  test('the other application keeps its routes, and the headers that it sets', async () => {
    const http = await openMounted({}, (_request, response, next) => {
      response.setHeader('X-Parent', 'here')
      next()
    })
    await http.get('/other').expect(200, 'other')
    await http.get('/nowhere').expect(404)
    const { headers } = await http.get('/api/users').expect(200)
    expect(headers['x-parent']).toBe('here')
    expect(headers).not.toHaveProperty('x-powered-by')
  })

  test.each([
    { how: 'as JSON', parser: express.json(), readsText: false },
    { how: 'as bytes', parser: readRaw, readsText: true },
    { how: 'as bytes that are no Buffer', parser: readBytes, readsText: true },
  ])('a body that was parsed $how is taken', async ({ parser, readsText }) => {
    const http = await openMounted({ BODY_LIMIT: 200 }, parser)
    const create = (body: object) => http.post('/api/users').send(body)
    const { body } = await create(newUserBody({ name: 'Zoë' })).expect(201)
    expect(body.name).toBe('Zoë')
    const rename = { user: { name: 'Bea' } }
    await http.put('/api/users/1').send(rename).expect(200)
    await create({}).expect(422)
    await http.post('/api/users').set('Content-Type', 'text/plain').send('{}').expect(415)
    if (!readsText) return
    await http.post('/api/users').type('json').send('{"user":').expect(400)
    await create(newUserBody({ name: 'A'.repeat(200) })).expect(413)
  })

  test('a body that was read and thrown away is an empty one', async () => {
    const http = await openMounted({}, (request, _response, next) => {
      request.resume().on('end', () => next())
    })
    const { body } = await http.post('/api/users').send(newUserBody()).expect(422)
    expect(body.errors).toEqual({ user: ['is required'] })
  })
})

test.each([
  ['application/json', 'counted', 200],
  ['application/x-ndjson', 'counted', 200],
  ['application/json', 'not counted', 500],
])(
  'an answer as %s that is %s and that the program fails to send is logged once',
  async (type, _what, status) => {
    const { lines, logger } = openLog('warn')
    const { records } = await open({ LIMITS: { track: [{ status: [status] }] } }, { logger })
    const parent = express().use((_request, response, next) => {
      response.end = () => {
        throw new Error('no end')
      }
      next()
    })
    const asked = supertest(parent.use(records.app)).get('/users').set('Accept', type)
    await expect(asked).rejects.toThrow()
    expect(lines).toMatchObject([{ msg: 'request failed', err: { message: 'no end' } }])
  },
)

// The server of another program hands on all requests of a packet in one turn of the event loop.
test('limits count requests that were sent together each by its own key', async () => {
  const { records } = await open({
    LIMITS: { rateLimits: [{ name: 'it', to: 9, within: 60, by: 'query:id', only: ['list'] }] },
  })
  const port = await listen(createServer(records.app))
  const sent = [1, 1, 1, 2, 1, 2].map(
    id => `GET /users?id=${id} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  )
  const exchange = sendRaw(port, sent.join(''))
  const answers = await exchange.answers(sent.length)
  exchange.socket.destroy()
  const left = answers.map(({ headers }) => /r=(\d)/.exec(String(headers.ratelimit))?.[1])
  expect(left).toEqual(['8', '7', '6', '8', '5', '7'])
})

describe('on a Unix socket', () => {
  const LIMITS = { rateLimits: [{ to: 1, within: 3600, only: ['list' as const] }] }
  const FORWARDED = { 'X-Forwarded-For': '198.51.100.7' }

  /** A service on a Unix socket, with the lines of its log. */
  async function openOnSocket(settings: UserRecordsSettings) {
    const path = join(temporaryFolder(), 'socket')
    const { lines, logger } = openLog()
    const { records } = await open({ LIMITS, ...settings }, { logger })
    const server = createServer(records.app)
    await listen(server, { socketPath: path })
    return { server, lines, statusOf: (headers = {}) => statusOn(path, headers) }
  }

  async function statusOn(socketPath: string, headers: Record<string, string>) {
    const sent = request({ socketPath, path: '/users', headers, agent: false }).end()
    const [response] = await once(sent, 'response')
    response.resume()
    return response.statusCode
  }

  test.each(['loopback', '127.0.0.1', 'loopback, 10.0.0.0/8', 1, 2])(
    'TRUST_PROXY=%s trusts the proxy, and counts by the address that it forwards',
    async TRUST_PROXY => {
      const { statusOf, lines } = await openOnSocket({ TRUST_PROXY })
      const other = { 'X-Forwarded-For': '[2001:db8::1]:4711', 'X-Forwarded-Host': 'a.example' }
      expect(await statusOf(FORWARDED)).toBe(200)
      expect(await statusOf(FORWARDED)).toBe(429)
      expect(await statusOf(other)).toBe(200)
      for (const status of [200, 429]) expect(await statusOf()).toBe(status)
      const clients = lines.flatMap(({ msg, client }) => (msg === 'request' ? [client] : []))
      const own = ['127.0.0.1', '127.0.0.1']
      expect(clients).toEqual(['198.51.100.7', '198.51.100.7', '2001:db8::1', ...own])
    },
  )

  test.each([undefined, '10.0.0.0/8'])(
    'TRUST_PROXY=%s trusts nobody there: rules by ip do not count, which one line says',
    async TRUST_PROXY => {
      const { statusOf, lines } = await openOnSocket({ TRUST_PROXY })
      for (let sent = 0; sent < 3; sent++) expect(await statusOf(FORWARDED)).toBe(200)
      expect(lines.filter(({ msg }) => msg !== 'request')).toEqual([
        expect.objectContaining({
          level: 40,
          setting: 'TRUST_PROXY',
          msg: expect.stringContaining('a client has no address, so rules by ip do not count'),
        }),
      ])
    },
  )

  test('rules that count by something else count, without that line', async () => {
    const { statusOf, lines } = await openOnSocket({
      LIMITS: { rateLimits: [{ to: 1, within: 3600, by: 'host' }] },
    })
    expect([await statusOf(), await statusOf()]).toEqual([200, 429])
    expect(lines.filter(({ level }) => Number(level) >= 40)).toEqual([
      expect.objectContaining({ msg: 'limit exceeded' }),
    ])
  })

  test('a client of TCP that was gone at once is not taken for a proxy', async () => {
    const { server, lines, statusOf } = await openOnSocket({ TRUST_PROXY: 'loopback' })
    const bytes = 'GET /users HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n'
    await requestWithoutPeer(server, bytes)
    expect(await statusOf(FORWARDED)).toBe(200)
    expect(await statusOf(FORWARDED)).toBe(429)
    expect(lines.filter(({ setting }) => setting === 'TRUST_PROXY')).toEqual([])
  })

  /** Sends bytes by a connection that has only an address of its own left, and waits for the answer. */
  async function requestWithoutPeer(server: Server, bytes: string): Promise<void> {
    const [client, end] = duplexPair()
    server.emit('connection', Object.assign(end, { localAddress: '127.0.0.1' }))
    client.write(bytes)
    await once(client, 'data')
    client.destroy()
  }
})
