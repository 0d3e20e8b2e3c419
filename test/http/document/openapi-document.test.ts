import { readFileSync } from 'node:fs'
import pino from 'pino'
import { beforeAll, expect, test } from 'vitest'
import { createApp } from '../../../src/app.ts'
import { createStopping } from '../../../src/http/server/stopping.ts'
import type { PasswordVerifications } from '../../../src/users/password-verifications.ts'
import { createUserRules } from '../../../src/users/user.ts'
import type { UserService } from '../../../src/users/user-service.ts'
import {
  type DescribedHeader,
  type DescribedInterface,
  type DescribedMedia,
  type DescribedOperation,
  type DescribedResponses,
  followReferences,
} from '../../support/described-interface.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { shareKeyedApp, shareTestApp } from '../../support/shared-app.ts'

const app = shareTestApp()
const keyed = shareKeyedApp([])
const PATH = '/openapi.json'

// biome-ignore lint/suspicious/noExplicitAny: the tests check what it is.
let document: any
let described: DescribedInterface

beforeAll(async () => {
  document = (await app.http.get(PATH).expect(200)).body
  described = followReferences(document)
})

function operationsOf({ paths }: DescribedInterface): DescribedOperation[] {
  return Object.values(paths).flatMap(item => Object.values(item))
}

test('GET /openapi.json answers an OpenAPI 3.1 document of this version, which any cache may store and revalidate', async () => {
  const { headers } = await app.http.get(PATH).expect(200)
  const packageJson = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(packageJson)
  expect(document.openapi).toMatch(/^3\.1\.\d+$/)
  expect(document.info).toMatchObject({ title: 'User Records Service', version })
  expect(headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'public, no-cache',
    etag: expect.stringMatching(/^"[\w-]{20,}"$/),
  })
  const again = await app.http.get(PATH).set('If-None-Match', headers.etag ?? '')
  expect([again.status, again.text]).toEqual([304, ''])
  for (const name of ['etag', 'cache-control', 'vary']) {
    expect(again.headers[name], name).toBe(headers[name])
  }
  await app.http.get(PATH).set('If-None-Match', '"another"').expect(200)
})

test('GET /openapi.json is the same for every request and every service with the same settings', async () => {
  const other = await openTestApp()
  const first = await app.http.get(PATH)
  for (const { text, headers } of [await app.http.get(PATH), await other.http.get(PATH)]) {
    expect([text, headers.etag]).toEqual([first.text, first.headers.etag])
  }
})

test('HEAD /openapi.json has the headers of GET and no body', async () => {
  const ofGet = await app.http.get(PATH).set('X-Request-Id', 'same')
  const ofHead = await app.http.head(PATH).set('X-Request-Id', 'same').expect(200)
  expect(ofHead.text).toBeUndefined()
  expect({ ...ofHead.headers, date: '' }).toEqual({ ...ofGet.headers, date: '' })
})

test('GET /openapi.json answers 406 to a client that accepts no JSON, and 405 names its methods', async () => {
  await app.http.get(PATH).set('Accept', 'text/html').expect(406)
  await app.http.get(PATH).set('Accept', 'application/problem+json').expect(200)
  const { headers } = await app.http.post(PATH).expect(405)
  expect(headers.allow).toBe('GET, HEAD, OPTIONS')
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

interface Route {
  readonly path: string
  /** Without a method if it is for all. */
  readonly stack: readonly { readonly method?: string }[]
}

/** Paths and methods of the mounted routes, as Express has them. */
function mountedRoutes(): Record<string, string[]> {
  const { router } = createApp({
    users: {} as UserService,
    verifications: {} as PasswordVerifications,
    rules: createUserRules({ passwordMinChars: 8 }),
    ping: async () => {},
    stopping: createStopping(),
    log: pino({ level: 'silent' }),
    newRequestId: () => 'id',
    isOnLoopback: () => false,
    onHostRefused: () => {},
    settings: {
      ...{ trustProxy: false, allowedHosts: undefined, corsOrigins: undefined },
      ...{ bodyLimitBytes: 1, maxEventLoopDelayMs: 1 },
    },
  })
  const { stack: layers } = router as unknown as { stack: { route?: Route }[] }
  const routes = layers.flatMap(({ route }) => (route === undefined ? [] : [route]))
  return Object.fromEntries(
    routes.map(({ path, stack }) => {
      const methods = stack.flatMap(({ method }) => (method === undefined ? [] : [method]))
      return [path.replace(/:(\w+)/g, '{$1}'), [...new Set(methods)]]
    }),
  )
}

test('the document has every mounted route except OPTIONS and the files of /docs, no HEAD, and nothing else', () => {
  const names = Object.entries(described.paths).map(([path, item]) => [
    path,
    Object.keys(item).sort(),
  ])
  const { '/docs/{release}/{file}': _files, ...routes } = mountedRoutes()
  const mounted = Object.entries(routes).map(([path, methods]) => [
    path,
    methods.filter(method => method !== 'options').sort(),
  ])
  expect(Object.fromEntries(names)).toEqual(Object.fromEntries(mounted))
  expect(mounted.length).toBeGreaterThan(5)
})

test('OPTIONS lists the methods that the document has for each path, and HEAD and OPTIONS', async () => {
  for (const [path, item] of Object.entries(described.paths)) {
    const { headers } = await app.http.options(path.replaceAll(/\{\w+\}/g, '1')).expect(204)
    const listed = Object.keys(item).map(method => method.toUpperCase())
    const methods = [...listed, ...(listed.includes('GET') ? ['HEAD'] : []), 'OPTIONS']
    expect(headers.allow?.split(', ').sort(), path).toEqual(methods.sort())
  }
  expect(document.info.description.replaceAll('\n', ' ')).toMatch(
    /\bHEAD works\b[^.]*\bOPTIONS works\b/,
  )
})

test('operation ids are unique, and good names for the methods of a generated client', () => {
  const ids = operationsOf(described).map(({ operationId }) => operationId)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids).toEqual(
    expect.arrayContaining([
      ...['listUsers', 'createUser', 'readUser', 'updateUser', 'patchUser', 'deleteUser'],
      ...['verifyPassword', 'checkLiveness', 'checkReadiness', 'readInterface', 'showHome'],
    ]),
  )
})

test('each operation lists all of its parameters itself, because every tool looks there', () => {
  const requestId = { $ref: '#/components/parameters/RequestId' }
  const items: Record<string, Record<string, { parameters: unknown[] }>> = document.paths
  for (const [path, item] of Object.entries(items)) {
    expect(item, path).not.toHaveProperty('parameters')
    for (const { parameters } of Object.values(item)) expect(parameters).toContainEqual(requestId)
  }
})

interface Sample {
  readonly place: string
  readonly schema: Readonly<Record<string, unknown>>
  readonly value: unknown
}

/** Every example of the document with its schema. */
function samplesOf(described: DescribedInterface): Sample[] {
  const { paths, schemas } = described
  const ofMedia = (place: string, { schema, examples = {} }: DescribedMedia): Sample[] =>
    Object.entries(examples).map(([name, { value }]) => {
      return { place: `${place} ${name}`, schema, value }
    })
  const ofHeader = (place: string, { schema, example }: DescribedHeader): Sample[] => [
    { place, schema, value: example },
  ]
  const ofResponses = (place: string, responses: DescribedResponses): Sample[] =>
    Object.entries(responses).flatMap(([status, { headers = {}, content = {} }]) => [
      ...Object.entries(headers).flatMap(([name, header]) =>
        ofHeader(`${place} ${status} ${name}`, header),
      ),
      ...Object.entries(content).flatMap(([type, media]) =>
        ofMedia(`${place} ${status} ${type}`, media),
      ),
    ])
  const ofSchema = (place: string, schema: unknown): Sample[] => {
    if (typeof schema !== 'object' || schema === null) return []
    const { examples = [], ...rest } = schema as { readonly examples?: readonly unknown[] }
    const samples = 'default' in rest ? [...examples, rest.default] : examples
    return [
      ...samples.map(value => ({ place, schema: rest, value })),
      ...Object.entries(rest).flatMap(([key, item]) => ofSchema(`${place} ${key}`, item)),
    ]
  }
  const operations = Object.values(paths).flatMap(item => Object.values(item))
  return [
    ...operations.flatMap(({ operationId, parameters, requestBody, responses }) => [
      ...parameters.flatMap(({ name, schema, example }) => [
        ...(example === undefined ? [] : ofHeader(`${operationId} ${name}`, { schema, example })),
        ...ofSchema(`${operationId} ${name}`, schema),
      ]),
      ...Object.values(requestBody?.content ?? {}).flatMap(media => ofMedia(operationId, media)),
      ...ofResponses(operationId, responses),
    ]),
    ...ofSchema('schemas', schemas),
  ]
}

test.each([{}, { PASSWORD_MIN_LENGTH: '1' }])(
  'every header and body has an example, and each example is valid, with %o',
  async env => {
    const { http } = await openTestApp({ env })
    const own = followReferences((await http.get(PATH).expect(200)).body)
    const samples = samplesOf(own)
    const broken = samples.flatMap(({ place, schema, value }) => {
      const validate = own.compile(schema, { closed: true })
      return value !== undefined && validate(value) ? [] : [[place, value, validate.errors]]
    })
    expect(broken).toEqual([])
    expect(samples.length).toBeGreaterThan(300)
    const bodies = operationsOf(own).flatMap(({ requestBody, responses }) => {
      const all: DescribedResponses[string][] = [requestBody ?? {}, ...Object.values(responses)]
      return all.flatMap(({ content = {} }) => Object.values(content))
    })
    expect(bodies.filter(({ examples = {} }) => Object.keys(examples).length === 0)).toEqual([])
  },
)

test('the password is writeOnly, and only in requests', () => {
  const places = Object.entries(described.schemas).filter(([, schema]) =>
    JSON.stringify(schema).includes('"password"'),
  )
  expect(places.map(([name]) => name).sort()).toEqual(['Login', 'NewUser', 'UserChange'])
  for (const [, { properties }] of places) {
    expect((properties as Record<string, unknown>).password).toMatchObject({ writeOnly: true })
  }
})

test('the document describes API keys, with the scope of each operation, only if they are required', async () => {
  expect(document.security).toEqual([])
  expect(document.components).not.toHaveProperty('securitySchemes')
  expect(document.info.description).toContain('The service asks for none.')
  expect(JSON.stringify(document)).not.toMatch(/key_required|scope_missing/)

  const { body: closed } = await keyed.http.get(PATH).expect(200)
  expect(closed.components.securitySchemes).toEqual({
    apiKey: { type: 'http', scheme: 'bearer', description: expect.stringContaining('users:write') },
  })
  expect(closed.security).toEqual([{ apiKey: [] }])
  expect(closed.info.description).toContain('Requests need an API key')
  const needs = Object.entries(followReferences(closed).paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => {
      const { security } = operation as unknown as { security: { apiKey: string[] }[] }
      const scopes = security.flatMap(({ apiKey }) => apiKey).join()
      return [`${method} ${path}`, [scopes, '401' in operation.responses]]
    }),
  )
  expect(Object.fromEntries(needs)).toMatchObject({
    'get /users': ['users:read', true],
    'post /users': ['users:write', true],
    'get /users/{id}': ['users:read', true],
    'put /users/{id}': ['users:write', true],
    'patch /users/{id}': ['users:write', true],
    'delete /users/{id}': ['users:write', true],
    'get /': ['', false],
    'get /docs': ['', false],
    'get /openapi.json': ['', false],
    'get /livez': ['', false],
    'get /readyz': ['', false],
  })
})
