import pino from 'pino'
import { expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { createStopping } from '../../src/http/stopping.ts'
import { ACTIONS } from '../../src/limits/rules-schema.ts'
import { createUserRules } from '../../src/users/user.ts'
import type { UserService } from '../../src/users/user-service.ts'
import {
  type DescribedHeader,
  type DescribedInterface,
  type DescribedMedia,
  followReferences,
} from '../support/described-interface.ts'
import { openTestApp } from '../support/open-test-app.ts'

async function readDocument(env = {}): Promise<DescribedInterface> {
  const { http } = await openTestApp({ env })
  const { body } = await http.get('/openapi.json').expect(200)
  return followReferences(body)
}

interface Route {
  readonly path: string
  /** Without a method where it is for all. */
  readonly stack: readonly { readonly method?: string }[]
}

/** Paths and methods of the routes that are mounted, by what Express knows of them. */
function mountedRoutes(): Record<string, string[]> {
  const app = createApp({
    users: {} as UserService,
    rules: createUserRules({ passwordMinChars: 8 }),
    ping: async () => {},
    stopping: createStopping(),
    log: pino({ level: 'silent' }),
    newRequestId: () => 'id',
    settings: {
      trustProxy: false,
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

test('the document has every route that is mounted, HEAD for each GET, and nothing else', async () => {
  const { paths } = await readDocument()
  const described = Object.entries(paths).map(([path, item]) => [path, Object.keys(item).sort()])
  const mounted = Object.entries(mountedRoutes()).map(([path, methods]) => [
    path,
    [...methods, ...(methods.includes('get') ? ['head'] : [])].sort(),
  ])
  expect(Object.fromEntries(described)).toEqual(Object.fromEntries(mounted))
  expect(mounted.length).toBeGreaterThan(5)
})

test('the document names the action of each operation that limits may name', async () => {
  const { paths } = await readDocument()
  const actions = Object.values(paths)
    .flatMap(item => Object.values(item))
    .map(operation => operation['x-action'])
    .filter(action => action !== undefined)
  expect([...new Set(actions)].sort()).toEqual([...ACTIONS].sort())
})

test('OPTIONS lists what the document has of each path', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/openapi.json').expect(200)
  for (const [path, item] of Object.entries(followReferences(body).paths)) {
    const { headers } = await http.options(path.replaceAll(/\{\w+\}/g, '1')).expect(204)
    const methods = Object.keys(item).map(method => method.toUpperCase())
    expect(headers.allow?.split(', ').sort(), path).toEqual(methods.sort())
  }
})

test('names of operations are those that clients would be generated with, each once', async () => {
  const { paths } = await readDocument()
  const ids = Object.values(paths).flatMap(item =>
    Object.values(item).map(({ operationId }) => operationId),
  )
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids).toEqual(
    expect.arrayContaining([
      ...['listUsers', 'createUser', 'readUser', 'updateUser', 'patchUser', 'deleteUser'],
      ...['headUsers', 'headUsersById', 'optionsUsers', 'optionsUsersById'],
      ...['checkLiveness', 'checkReadiness', 'readInterface', 'showHome'],
    ]),
  )
})

interface Sample {
  readonly place: string
  readonly schema: Readonly<Record<string, unknown>>
  readonly value: unknown
}

/** Every example of the document with the schema that it is to show. */
function samplesOf({ paths, otherPaths, otherMethods, schemas }: DescribedInterface): Sample[] {
  const ofMedia = (place: string, { schema, examples = {} }: DescribedMedia): Sample[] =>
    Object.entries(examples).map(([name, { value }]) => ({
      place: `${place} ${name}`,
      schema,
      value,
    }))
  const ofHeader = (place: string, { schema, example }: DescribedHeader): Sample[] => [
    { place, schema, value: example },
  ]
  const ofResponses = (place: string, responses: DescribedInterface['otherPaths']): Sample[] =>
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
      ...parameters.flatMap(parameter => [
        ...ofHeader(`${operationId} ${parameter.name}`, parameter),
        ...ofSchema(`${operationId} ${parameter.name}`, parameter.schema),
      ]),
      ...Object.values(requestBody?.content ?? {}).flatMap(media => ofMedia(operationId, media)),
      ...ofResponses(operationId, responses),
    ]),
    ...ofResponses('other paths', otherPaths),
    ...ofResponses('other methods', otherMethods),
    ...ofSchema('schemas', schemas),
  ]
}

test.each([{}, { CORS_ORIGINS: '*', PASSWORD_MIN_LENGTH: '1' }])(
  'every parameter, header and body has an example, and each is valid, with %o',
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

test('the password is writeOnly, in requests alone', async () => {
  const { schemas } = await readDocument()
  const places = Object.entries(schemas).filter(([, schema]) =>
    JSON.stringify(schema).includes('"password"'),
  )
  expect(places.map(([name]) => name).sort()).toEqual(['NewUser', 'UserChange'])
  for (const [, { properties }] of places) {
    expect((properties as Record<string, unknown>).password).toMatchObject({ writeOnly: true })
  }
})

test('the document tells of CORS where it is on, and not where it is off', async () => {
  const [off, on] = [await readDocument(), await readDocument({ CORS_ORIGINS: '*' })]
  const headersOf = ({ paths }: DescribedInterface) =>
    Object.keys(paths['/users']?.options?.responses['204']?.headers ?? {}).join()
  expect(headersOf(off)).not.toContain('Access-Control')
  for (const name of [
    'Allow-Origin',
    'Expose-Headers',
    'Allow-Methods',
    'Allow-Headers',
    'Max-Age',
  ]) {
    expect(headersOf(on)).toContain(`Access-Control-${name}`)
  }
})
