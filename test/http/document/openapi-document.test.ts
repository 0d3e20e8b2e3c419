import pino from 'pino'
import { expect, test } from 'vitest'
import { createApp } from '../../../src/app.ts'
import { createStopping } from '../../../src/http/server/stopping.ts'
import type { PasswordVerifications } from '../../../src/users/password-verifications.ts'
import { createUserRules } from '../../../src/users/user.ts'
import type { UserService } from '../../../src/users/user-service.ts'
import { openKeyedApp } from '../../support/api-keys.ts'
import {
  type DescribedHeader,
  type DescribedInterface,
  type DescribedMedia,
  type DescribedResponses,
  followReferences,
} from '../../support/described-interface.ts'
import { openTestApp } from '../../support/open-test-app.ts'

async function readDocument(env = {}): Promise<DescribedInterface> {
  const { http } = await openTestApp({ env })
  const { body } = await http.get('/openapi.json').expect(200)
  return followReferences(body)
}

interface Route {
  readonly path: string
  /** Without a method if it is for all. */
  readonly stack: readonly { readonly method?: string }[]
}

/** Paths and methods of the mounted routes, as Express has them. */
function mountedRoutes(): Record<string, string[]> {
  const app = createApp({
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
      trustProxy: false,
      allowedHosts: undefined,
      corsOrigins: undefined,
      bodyLimitBytes: 1,
      maxEventLoopDelayMs: 1,
    },
  })
  const routes = (app.router as unknown as { stack: { route?: Route }[] }).stack
    .map(({ route }) => route)
    .filter(route => route !== undefined)
  return Object.fromEntries(
    routes.map(({ path, stack }) => [
      path.replace(/:(\w+)/g, '{$1}'),
      [...new Set(stack.map(({ method }) => method).filter(method => method !== undefined))],
    ]),
  )
}

test('the document has every mounted route except OPTIONS and the files of /docs, no HEAD, and nothing else', async () => {
  const { paths } = await readDocument()
  const described = Object.entries(paths).map(([path, item]) => [path, Object.keys(item).sort()])
  const { '/docs/{release}/{file}': _files, ...routes } = mountedRoutes()
  const mounted = Object.entries(routes).map(([path, methods]) => [
    path,
    methods.filter(method => method !== 'options').sort(),
  ])
  expect(Object.fromEntries(described)).toEqual(Object.fromEntries(mounted))
  expect(mounted.length).toBeGreaterThan(5)
})

test('OPTIONS lists the methods that the document has for each path, and HEAD and OPTIONS', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/openapi.json').expect(200)
  for (const [path, item] of Object.entries(followReferences(body).paths)) {
    const { headers } = await http.options(path.replaceAll(/\{\w+\}/g, '1')).expect(204)
    const listed = Object.keys(item).map(method => method.toUpperCase())
    const methods = [...listed, ...(listed.includes('GET') ? ['HEAD'] : []), 'OPTIONS']
    expect(headers.allow?.split(', ').sort(), path).toEqual(methods.sort())
  }
})

test('operation ids are unique, and good names for the methods of a generated client', async () => {
  const { paths } = await readDocument()
  const ids = Object.values(paths).flatMap(item =>
    Object.values(item).map(({ operationId }) => operationId),
  )
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids).toEqual(
    expect.arrayContaining([
      ...['listUsers', 'createUser', 'readUser', 'updateUser', 'patchUser', 'deleteUser'],
      'verifyPassword',
      ...['checkLiveness', 'checkReadiness', 'readInterface', 'showHome'],
    ]),
  )
})

test('one sentence of the document says that HEAD and OPTIONS work', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/openapi.json').expect(200)
  const sentences = (body.info.description as string).replaceAll('\n', ' ').split(/(?<=\.) /)
  expect(
    sentences.filter(sentence => /\bHEAD works\b.*\bOPTIONS works\b/.test(sentence)),
  ).toHaveLength(1)
})

test('each operation lists all of its parameters itself, because every tool looks there', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/openapi.json').expect(200)
  const requestId = { $ref: '#/components/parameters/RequestId' }
  for (const [path, item] of Object.entries<Record<string, { parameters: unknown[] }>>(
    body.paths,
  )) {
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
    Object.entries(examples).map(([name, { value }]) => ({
      place: `${place} ${name}`,
      schema,
      value,
    }))
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
    const described = await readDocument(env)
    const samples = samplesOf(described)
    const broken = samples.flatMap(({ place, schema, value }) => {
      const validate = described.compile(schema, { closed: true })
      return value !== undefined && validate(value) ? [] : [[place, value, validate.errors]]
    })
    expect(broken).toEqual([])
    expect(samples.length).toBeGreaterThan(300)
    const medias = Object.values(described.paths)
      .flatMap(item => Object.values(item))
      .flatMap(({ requestBody, responses }) => [requestBody ?? {}, ...Object.values(responses)])
      .flatMap(({ content = {} }: { content?: Readonly<Record<string, DescribedMedia>> }) =>
        Object.values(content),
      )
    expect(medias.filter(({ examples = {} }) => Object.keys(examples).length === 0)).toEqual([])
  },
)

test('the password is writeOnly, and only in requests', async () => {
  const { schemas } = await readDocument()
  const places = Object.entries(schemas).filter(([, schema]) =>
    JSON.stringify(schema).includes('"password"'),
  )
  expect(places.map(([name]) => name).sort()).toEqual(['Login', 'NewUser', 'UserChange'])
  for (const [, { properties }] of places) {
    expect((properties as Record<string, unknown>).password).toMatchObject({ writeOnly: true })
  }
})

test('the document describes API keys only if they are required', async () => {
  const { http } = await openTestApp()
  const { body: open } = await http.get('/openapi.json').expect(200)
  expect(open.security).toEqual([])
  expect(open.components).not.toHaveProperty('securitySchemes')
  expect(open.info.description).toContain('The service asks for none.')
  expect(JSON.stringify(open)).not.toMatch(/key_required|scope_missing/)
  const { http: closed } = await openKeyedApp([])
  const { body: document } = await closed.get('/openapi.json').expect(200)
  expect(document.components.securitySchemes).toEqual({
    apiKey: { type: 'http', scheme: 'bearer', description: expect.stringContaining('users:write') },
  })
  expect(document.security).toEqual([{ apiKey: [] }])
  expect(document.info.description).toContain('Requests need an API key')
})

test('the document has the scope of each operation, and the refusals that go with it', async () => {
  const { http } = await openKeyedApp([])
  const { body } = await http.get('/openapi.json').expect(200)
  const { paths } = followReferences(body)
  const security = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => {
      const { security: needs } = operation as unknown as { security: object }
      const hasRefusals = '401' in operation.responses
      return [`${method} ${path}`, needs, hasRefusals]
    }),
  )
  const reads = [{ apiKey: ['users:read'] }]
  const writes = [{ apiKey: ['users:write'] }]
  expect(Object.fromEntries(security.map(([name, ...rest]) => [name, rest]))).toMatchObject({
    'get /users': [reads, true],
    'post /users': [writes, true],
    'get /users/{id}': [reads, true],
    'put /users/{id}': [writes, true],
    'patch /users/{id}': [writes, true],
    'delete /users/{id}': [writes, true],
    'get /': [[], false],
    'get /docs': [[], false],
    'get /openapi.json': [[], false],
    'get /livez': [[], false],
    'get /readyz': [[], false],
  })
})
