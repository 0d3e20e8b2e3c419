import { readFileSync } from 'node:fs'
import type { Logger } from 'pino'
import { describe, expect, test } from 'vitest'
import { createPages, pageOperations } from '../../src/http/pages/pages.ts'
import { createRouteParts, routesOf } from '../../src/http/router.ts'
import { createHealthRouter, type HealthOptions, healthOperations } from '../../src/ops/health.ts'
import { encodeChangeCursor } from '../../src/users/cursor.ts'
import { describeUserOperations } from '../../src/users/user-openapi.ts'
import { createUserRouter, type UserRouterOptions } from '../../src/users/user-router.ts'
import { createUserRules } from '../../src/users/user-schemas.ts'
import { newUserBody } from '../support/builders.ts'
import {
  type DescribedInterface,
  type DescribedOperation,
  followReferences,
} from '../support/described-interface.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { AS_JSON, askRaw, CHUNKED, type RawAnswer, type RawHeaders } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'

const PATH = '/openapi.json'

const OPERATIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/users': { get: 'listUsers', post: 'createUser', delete: 'deleteUsers' },
  '/users/changes': { get: 'listChanges' },
  '/password-verifications': { post: 'verifyPassword' },
  '/users/{id}': {
    ...{ get: 'readUser', put: 'updateUser', patch: 'patchUser', delete: 'deleteUser' },
  },
  '/': { get: 'showHome' },
  '/docs': { get: 'showDocs' },
  '/openapi.json': { get: 'readInterface' },
  '/livez': { get: 'checkLiveness' },
  '/readyz': { get: 'checkReadiness' },
}

describe('of a service without keys', () => {
  const app = shareTestApp()

  test('GET /openapi.json answers an OpenAPI 3.1 document of this version', async () => {
    const { headers, body } = await app.http.get(PATH).expect(200)
    const packageJson = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
    expect(body.openapi).toMatch(/^3\.1\.\d+$/)
    expect(body.info).toMatchObject({
      title: 'User Records Service',
      version: JSON.parse(packageJson).version,
    })
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
  })

  test('the document has every operation and its id, and OPTIONS lists the same methods', async () => {
    const { paths } = (await app.http.get(PATH).expect(200)).body
    const ids = Object.entries<Record<string, DescribedOperation>>(paths).map(([path, item]) => [
      path,
      Object.fromEntries(Object.entries(item).map(([method, { operationId: id }]) => [method, id])),
    ])
    expect(Object.fromEntries(ids), 'add it to OPERATIONS').toEqual(OPERATIONS)
    for (const [path, item] of Object.entries(OPERATIONS)) {
      const { headers } = await app.http.options(path.replace('{id}', '1')).expect(204)
      const listed = [...Object.keys(item), ...('get' in item ? ['head'] : []), 'options']
      expect(headers.allow?.toLowerCase().split(', ').sort(), path).toEqual(listed.sort())
    }
  })

  test('the document shows PASSWORD_MIN_LENGTH and BODY_LIMIT of the service', async () => {
    const { http } = await openTestApp({ env: { PASSWORD_MIN_LENGTH: '13', BODY_LIMIT: '7kb' } })
    const { body } = await http.get(PATH).expect(200)
    const { NewUser, UserChange } = body.components.schemas
    for (const { properties } of [NewUser, UserChange]) {
      expect(properties.password).toMatchObject({ minLength: 13, maxLength: 128 })
    }
    expect(body.paths['/users'].post.requestBody.description).toContain('7168 bytes')
  })

  test('the password is writeOnly, and only in requests', async () => {
    const { schemas } = (await app.http.get(PATH)).body.components
    const names = Object.keys(schemas).filter(name =>
      /"password"/.test(JSON.stringify(schemas[name])),
    )
    expect(names.sort()).toEqual(['Login', 'LoginById', 'NewUser', 'UserChange'])
    for (const name of names) {
      expect(schemas[name].properties.password).toMatchObject({ writeOnly: true })
    }
  })

  test('its examples work one after another, beside the user of the README', async () => {
    const { http } = await openTestApp({ users: [newUserBody({ email: 'ann@example.com' })] })
    const { paths, components } = (await http.get(PATH).expect(200)).body
    type Parameter = { name: string; required?: true; schema?: { examples?: unknown[] } }
    type Exemplary = {
      requestBody?: { content: Record<string, { example: object }> }
      parameters: Parameter[]
    }
    const statuses: [string, number][] = []
    for (const [path, item] of Object.entries<Record<string, Exemplary>>(paths)) {
      for (const [method, { requestBody, parameters }] of Object.entries(item)) {
        const target = path.replace('{id}', components.parameters.UserId.example)
        const body = requestBody?.content['application/json']?.example
        const needed = parameters
          .filter(({ required, schema }) => required && schema)
          .map(({ name, schema }) => [name, String(schema?.examples?.[0])])
        const asked = http[method as 'get'](target).query(Object.fromEntries(needed))
        const { status } = await asked.send(body)
        statuses.push([`${method} ${path}`, status])
      }
    }
    const failed = statuses.filter(([, status]) => status >= 300)
    expect(failed, 'in user-openapi.ts, put it where its example works').toEqual([])
  })

  test('the document of a service without keys describes none', async () => {
    const { body, text } = await app.http.get(PATH)
    expect(body.security).toEqual([])
    expect(body.components).not.toHaveProperty('securitySchemes')
    expect(text).not.toMatch(/key_required|scope_missing|"401"/)
  })
})

/** With limits, CORS and keys, so that there is every kind of answer. */
const app = shareTestApp({
  keys: [
    { name: 'all' },
    { name: 'verifier', scopes: ['passwords:verify'] },
    { name: 'reader', scopes: ['users:read'] },
  ],
  env: {
    ALLOWED_HOSTS: 'localhost,127.0.0.1',
    BODY_LIMIT: '1kb',
    CORS_ORIGINS: 'https://app.example',
  },
  limits: {
    blocklist: [{ userAgent: 'blocked' }],
    throttle: [
      { userAgent: 'busy', limit: 1, period: '1 hour' },
      { userAgent: 'sent away', limit: 1, period: '1 hour', with: { redirect: '/elsewhere' } },
    ],
    rateLimits: [{ to: 100_000, within: '1 hour' }],
  },
})

interface Sent {
  readonly id?: number | string
  /** The number of its key. */
  readonly key?: number
  readonly query?: string
  /** Before the path, as clients send it to a proxy. */
  readonly origin?: string
  readonly headers?: RawHeaders
  readonly body?: string
}

const CURSOR_OF_ANOTHER_DATABASE = encodeChangeCursor({
  ...{ mark: 'other', phase: 'changes', key: '1', id: 1, since: '0' },
})

const WRONG_TAG = '"2000-01-01T00:00:00.000Z"'

/** Ways to send a request to any operation, most of them wrong. */
const WAYS: readonly Sent[] = [
  {},
  { id: 999 },
  { id: '%zz' },
  { key: 1 },
  { key: 2 },
  { query: '?unknown=1' },
  { query: '?%zz=1' },
  { query: `?after=${CURSOR_OF_ANOTHER_DATABASE}` },
  { query: '?count=true&envelope=true&per_page=1&page=1&sort=-id' },
  { headers: { Origin: 'https://app.example' } },
  { headers: { Host: 'evil.example' } },
  { origin: 'https://localhost' },
  { headers: { Host: ['localhost', 'localhost'] } },
  { headers: { 'User-Agent': 'blocked' } },
  ...Array(2).fill({ headers: { 'User-Agent': 'busy' } }),
  ...Array(2).fill({ headers: { 'User-Agent': 'sent away' } }),
  { headers: { Authorization: '' } },
  { headers: { Accept: 'image/png' } },
  { query: '?unknown=1', headers: { Accept: 'application/problem+json' } },
  { headers: { 'X-Long': 'x'.repeat(20_000) } },
  { headers: CHUNKED, body: `1;${'x'.repeat(20_000)}\r\n` },
  { headers: CHUNKED, body: 'x\r\n' },
  { query: `?${'x'.repeat(20_000)}` },
  { headers: { ...CHUNKED, 'Transfer-Encoding': 'gzip, chunked' }, body: '0\r\n\r\n' },
  { body: `"${'x'.repeat(1025)}"` },
  { body: '{' },
  { headers: { 'Content-Type': 'text/plain' } },
  { headers: { 'Content-Encoding': 'x' } },
  { body: '{"user":{"name":5,"email":"x","password":"x"}}' },
  { body: '{"user":{"name":"","email":"","password":""}}' },
  ...Array(2).fill({ id: 2, body: '{"user":{"name":"Other","email":"taken@x.co"}}' }),
  { headers: { 'Idempotency-Key': 'a b' } },
  { headers: { Prefer: 'handling=strict' } },
  { headers: { Prefer: 'handling=strict' }, body: '{"user":{"nmae":"x"}}' },
  { body: '{"users":[{"name":"Many","email":"many@x.co"},{}]}' },
  { body: '{"users":[],"user":null}' },
  { headers: { 'If-Match': WRONG_TAG } },
  { headers: { 'If-None-Match': '*' } },
]

/** Statuses and reasons that need a slow client, an overload or a fault where there is nothing to fail. */
const NOT_MADE =
  /408|409|503|default|(?:showHome|showDocs|readInterface|check\w+) (?:500|internal_error)|unavailable|overloaded|shutting_down|request_timeout|outcome_unknown|in_use/

test('every answer to requests of every kind is in the document, which describes no others', async () => {
  const described = followReferences((await app.http.get(PATH)).body)
  const met = new Set<string>()
  const wrong: unknown[] = []
  const login = { user: { email: 'known@x.co', password: 'correct horse' } }

  async function send(
    method: string,
    path: string,
    { id = 1, key = 0, query = '', origin = '', headers, body }: Sent,
  ) {
    const fields = path.startsWith('/password') ? login : newUserBody()
    const right = /^p/.test(method) ? JSON.stringify(fields) : ''
    const line = `${method.toUpperCase()} ${origin}${path.replace('{id}', String(id))}${query}`
    const all = { Authorization: app.bearers[key] ?? '', ...AS_JSON, ...headers }
    const answer = await askRaw(app.port, line, all, body ?? right)
    const operation = described.paths[path]?.[method] as DescribedOperation
    met.add(`${operation.operationId} ${answer.status}`)
    met.add(`${operation.operationId} ${reasonIn(answer)}`)
    const found = undocumented(described, operation, answer)
    if (found.length > 0) wrong.push([line, answer.status, headers, ...found])
    return answer
  }

  const create = async (sent: Sent = {}) =>
    JSON.parse((await send('post', '/users', sent)).body).id as number

  async function sendToEach(sent: Sent): Promise<void> {
    for (const [path, item] of Object.entries(OPERATIONS)) {
      for (const method of Object.keys(item)) {
        await send(method, path, method === 'delete' ? { id: await create(), ...sent } : sent)
      }
    }
  }

  await create({ body: JSON.stringify({ user: { name: 'Known', ...login.user } }) })
  for (const sent of WAYS) await sendToEach(sent)
  const keyed = { headers: { 'Idempotency-Key': 'key' }, body: JSON.stringify(newUserBody()) }
  const id = await create(keyed)
  expect(await create(keyed)).toBe(id)
  await send('post', '/users', { headers: keyed.headers })
  await send('delete', '/users/{id}', { id })
  await send('post', '/users', keyed)
  await send('delete', '/users', { query: `?id=${id}` })
  await executeSql(app.databaseUrl, 'DROP TABLE users')
  await sendToEach({ id: 1 })
  await send('delete', '/users', { query: '?id=1' })
  expect(wrong).toEqual([])
  const all = Object.values(described.paths).flatMap(item =>
    Object.values(item).flatMap(({ operationId, responses }) =>
      [...Object.keys(responses), ...examplesIn(responses).map(([reason]) => reason)].map(
        one => `${operationId} ${one}`,
      ),
    ),
  )
  const neverMet = all.filter(one => !met.has(one) && !NOT_MADE.test(one))
  expect(neverMet, 'described, but no request of OPERATIONS and WAYS has got it').toEqual([])
})

test('each error has an example that its schema takes', async () => {
  const described = followReferences((await app.http.get(PATH)).body)
  const examples = Object.values(described.paths).flatMap(item =>
    Object.values(item).flatMap(({ responses }) =>
      Object.values(responses).flatMap(({ content }) =>
        Object.values(content ?? {}).flatMap(({ schema, examples = {} }) =>
          Object.values(examples).map(({ value }) => ({ schema, value })),
        ),
      ),
    ),
  )
  const isRight = ({ schema, value }: (typeof examples)[number]) =>
    described.compile(schema, { closed: true })(value)
  expect(examples.length).toBeGreaterThan(100)
  expect(examples.filter(example => !isRight(example))).toEqual([])
})

test('the document describes API keys, with the scope of each operation, if they are required', async () => {
  const { body } = await app.http.get(PATH).expect(200)
  expect(body.components.securitySchemes).toEqual({
    apiKey: { type: 'http', scheme: 'bearer', description: expect.stringContaining('users:write') },
  })
  expect(body.security).toEqual([{ apiKey: [] }])
  type Secured = DescribedOperation & { readonly security?: { readonly apiKey: string[] }[] }
  const needs = Object.values<Record<string, Secured>>(body.paths).flatMap(item =>
    Object.values(item).map(({ operationId, security = [], responses }) => [
      operationId,
      [security.map(({ apiKey }) => apiKey).join(), '401' in responses],
    ]),
  )
  expect(Object.fromEntries(needs), 'add it to the ids of its scope').toEqual({
    ...Object.fromEntries(needs.map(([id]) => [id, ['', false]])),
    ...Object.fromEntries(
      ['listUsers', 'listChanges', 'readUser'].map(id => [id, ['users:read', true]]),
    ),
    ...Object.fromEntries(
      ['createUser', 'deleteUsers', 'updateUser', 'patchUser', 'deleteUser'].map(id => [
        id,
        ['users:write', true],
      ]),
    ),
    verifyPassword: ['passwords:verify', true],
  })
})

/** Headers for Node, caches and browsers, which the document does not describe. */
const LEFT_OUT = [
  ...['date', 'connection', 'keep-alive', 'content-length', 'content-type'],
  ...['accept', 'vary', 'cache-control', 'x-content-type-options', 'content-security-policy'],
  ...['access-control-allow-origin', 'access-control-expose-headers'],
]

/** The example of each reason in JSON. */
function examplesIn(responses: DescribedOperation['responses']) {
  return Object.values(responses).flatMap(({ content }) =>
    Object.entries(content?.['application/json']?.examples ?? {}),
  )
}

/** Empty if it is no error. */
function reasonIn({ status, body }: Pick<RawAnswer, 'status' | 'body'>): string {
  return (status >= 300 && /"reason":"(\w+)"/.exec(body)?.[1]) || ''
}

/** The differences between an answer and the document; empty if the document describes all its parts. */
function undocumented(
  described: DescribedInterface,
  { responses }: DescribedOperation,
  { status, headers, body }: RawAnswer,
): string[] {
  const response = responses[status] ?? (status === 302 ? responses.default : undefined)
  if (response === undefined) return ['the status']
  const { description, headers: known = {}, content } = response
  const isKnown = (name: string) => Object.keys(known).some(one => one.toLowerCase() === name)
  const unknown = Object.keys(headers).filter(name => !isKnown(name) && !LEFT_OUT.includes(name))
  const broken = Object.entries(known).filter(([name, { required, schema }]) => {
    const value = headers[name.toLowerCase()]
    if (value === undefined) return required
    return !described.compile(schema)(schema.type === 'integer' ? Number(value) : value)
  })
  const reason = reasonIn({ status, body })
  const isListed = reason === '' || description.includes(`\`${reason}\``)
  const wrong = [...unknown, ...broken.map(([name]) => name), ...(isListed ? [] : [reason])]
  if (content === undefined) return body === '' ? wrong : [...wrong, 'a body']
  const type = headers['content-type']?.replace('; charset=utf-8', '') ?? ''
  const media = content[type]
  if (media === undefined) return [...wrong, `the type ${type}`]
  const example = reason !== '' && type === 'application/json' && status !== 302
  if (example && JSON.parse(body).message !== media.examples?.[reason]?.value.message) {
    return [...wrong, `an example of ${reason} with the message of ${body}`]
  }
  const validate = described.compile(media.schema, { closed: true })
  return validate(type.endsWith('json') ? JSON.parse(body) : body) ? wrong : [...wrong, body]
}

test('the routes that are mounted are the operations of the document, and the files of its page', () => {
  const { parts } = createRouteParts({ log: {} as Logger, bodyLimitBytes: 1 })
  const settings = { version: '1.0.0', bodyLimitBytes: 1, scopes: undefined }
  const isReady = async () => true
  const routers = [
    createUserRouter({} as UserRouterOptions, parts),
    createPages({ operations: [], settings, isReady }, parts),
    createHealthRouter({} as HealthOptions, parts),
  ]
  const mounted = routers
    .flatMap(routesOf)
    .flatMap(({ path, methods }) => methods.map(method => `${method} ${path}`))
  const users = describeUserOperations(createUserRules({ passwordMinChars: 8 }))
  const documented = [...users, ...Object.values({ ...pageOperations, ...healthOperations })]
  const lines = documented.map(({ method, path }) => `${method} ${path}`)
  const hint = 'each route is described, for users in user-openapi.ts, and each operation mounted'
  expect(mounted.sort(), hint).toEqual([...lines, 'get /docs/{release}/{file}'].sort())
})
