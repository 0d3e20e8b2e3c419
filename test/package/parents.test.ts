import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { installPackages } from '../support/packed-package.ts'
import { firstBlock, PROJECT, readProject } from '../support/project.ts'
import { spawnService } from '../support/spawn-service.ts'

/** What programs around the service use. Four of them wrap `writeHead` by on-headers 1.0.2. */
const PACKAGES = {
  'old-express': 'npm:express@4.21.2',
  'old-compression': 'npm:compression@1.7.4',
  compression: '1.8.2',
  morgan: '1.10.0',
  'express-session': '1.18.1',
  'response-time': '2.3.3',
  helmet: '8.3.0',
  'serverless-http': '3.2.0',
  '@sentry/node': '11.12.0',
  '@opentelemetry/api': '1.9.1',
  '@opentelemetry/sdk-trace-node': '2.12.1',
  '@opentelemetry/sdk-node': '0.223.0',
  '@opentelemetry/instrumentation': '0.223.0',
  '@opentelemetry/instrumentation-http': '0.223.0',
  '@opentelemetry/instrumentation-express': '0.71.1',
  '@opentelemetry/instrumentation-pg': '0.76.0',
}

const folder = temporaryFolder(afterAll)
const children: ChildProcess[] = []
/** What the service answers in a parent without middleware. */
let alone: readonly Answer[]

beforeAll(async () => {
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ dependencies: PACKAGES }))
  await installPackages(folder)
  const modules = join(folder, 'node_modules')
  symlinkSync(PROJECT, join(modules, 'user-records-service'), 'dir')
  symlinkSync(join(PROJECT, 'node_modules/express'), join(modules, 'express'), 'dir')
  const program = new URL('parents/program.mjs', import.meta.url)
  copyFileSync(program, join(folder, 'program.mjs'))
  alone = await answersOf(await startParent('none'))
})

afterAll(() => {
  for (const child of children) child.kill()
})

/** Starts `program.mjs`, and returns the URL of its server. */
async function startParent(name: string): Promise<string> {
  const child = spawn(process.execPath, ['program.mjs', name], {
    ...{ cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] },
  })
  children.push(child)
  const [port] = await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'close').then(() => Promise.reject(new Error(`the parent with ${name} ended`))),
  ])
  return `http://127.0.0.1:${String(port).trim()}`
}

const NDJSON = { Accept: 'application/x-ndjson' }
const PROBLEM = { Accept: 'application/problem+json' }
const HTML = { Accept: 'text/html' }
const JSON_TYPE = { 'Content-Type': 'application/json' }

const ann = newUserBody({ password: 'correct horse' })
const bea = newUserBody({ name: 'Bea', email: 'bea@example.com' })
const verify = { user: { email: ann.user.email, password: ann.user.password } }

type Operation = [
  status: number,
  method: string,
  path: string,
  headers?: Readonly<Record<string, string>>,
  body?: unknown,
]

/** Every operation of the service, and every kind of answer that it has. */
const OPERATIONS: readonly Operation[] = [
  [201, 'POST', '/users', JSON_TYPE, ann],
  [422, 'POST', '/users', JSON_TYPE, ann],
  [422, 'POST', '/users', { ...JSON_TYPE, ...PROBLEM }, { user: {} }],
  [400, 'POST', '/users', JSON_TYPE, '{'],
  [415, 'POST', '/users', { 'Content-Type': 'text/plain' }, 'Ann'],
  [413, 'POST', '/users', JSON_TYPE, newUserBody({ name: 'A'.repeat(1000) })],
  [201, 'POST', '/users', { ...JSON_TYPE, 'Idempotency-Key': 'bea' }, bea],
  [201, 'POST', '/users', { ...JSON_TYPE, 'Idempotency-Key': 'bea' }, bea],
  [200, 'GET', '/users?per_page=1&page=1&count=true'],
  [200, 'GET', '/users?envelope=true'],
  [200, 'HEAD', '/users'],
  [304, 'GET', '/users', { 'If-None-Match': '*' }],
  [200, 'GET', '/users?name=a', NDJSON],
  [200, 'HEAD', '/users', NDJSON],
  [400, 'GET', '/users?nothing=1'],
  [200, 'GET', '/users/1'],
  [200, 'HEAD', '/users/1'],
  [304, 'GET', '/users/1', { 'If-None-Match': '*' }],
  [406, 'GET', '/users/1', HTML],
  [412, 'GET', '/users/1', { 'If-Match': '"another"' }],
  [200, 'PUT', '/users/1', JSON_TYPE, { user: { name: 'Anna' } }],
  [200, 'PATCH', '/users/1', JSON_TYPE, { user: { name: 'Ann' } }],
  [204, 'OPTIONS', '/users/1'],
  [405, 'POST', '/users/1', JSON_TYPE, ann],
  [404, 'GET', '/users/9'],
  [200, 'POST', '/password-verifications', JSON_TYPE, verify],
  [422, 'POST', '/password-verifications', JSON_TYPE, bea],
  [200, 'GET', '/users/changes'],
  [400, 'GET', '/users/changes?after=nonsense'],
  [200, 'GET', '/users/1', { 'X-Limited': '1' }],
  [429, 'GET', '/users/1', { 'X-Limited': '1' }],
  [200, 'GET', '/users/1', { 'X-Failing': '1' }],
  [500, 'GET', '/users/1', { 'X-Failing': '1' }],
  [204, 'DELETE', '/users/2'],
  [404, 'DELETE', '/users/2'],
  [200, 'GET', '/'],
  [200, 'GET', '/', HTML],
  [200, 'GET', '/docs', HTML],
  [200, 'GET', '/openapi.json'],
  [200, 'GET', '/livez'],
  [200, 'HEAD', '/livez'],
  [200, 'GET', '/readyz'],
  [404, 'GET', '/nowhere'],
]

type Answer = Awaited<ReturnType<typeof ask>>

async function ask(url: string, [status, method, path, headers, body]: Operation) {
  const response = await fetch(`${url}/api${path}`, {
    ...{ method, headers: { 'X-Request-Id': 'mine', ...headers } },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return {
    operation: `${status} ${method} ${path}`,
    status: response.status,
    headers: Object.fromEntries(
      [...response.headers].map(([name, value]) => [name, withoutRandom(value)]),
    ),
    body: withoutRandom(await response.text()),
  }
}

/** What the service answers to all operations, one after the other, without what differs from run to run. */
async function answersOf(url: string): Promise<readonly Answer[]> {
  const answers: Answer[] = []
  for (const operation of OPERATIONS) answers.push(await ask(url, operation))
  return answers
}

/** The events that a stream begins with. Compressed, they would come later. */
async function firstEvents(url: string) {
  const leaving = new AbortController()
  const { headers, body } = await fetch(`${url}/api/users/changes`, {
    headers: { Accept: 'text/event-stream' },
    signal: leaving.signal,
  })
  const first = await body?.getReader().read()
  leaving.abort()
  return { type: headers.get('content-type'), text: new TextDecoder().decode(first?.value) }
}

/** The answer to a client that knows all changes, and waits a second for more. */
async function waitForChanges(url: string) {
  const changes = `${url}/api/users/changes`
  const { next } = (await (await fetch(changes)).json()) as { next: string }
  const response = await fetch(`${changes}?wait=1&after=${next}`)
  return [response.status, ((await response.json()) as { data: unknown }).data]
}

/** Without times, entity tags and cursors. */
function withoutRandom(text: string): string {
  return text
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/^"[\w.-]+"$/, 'TAG')
    .replace(/(after=|"next":")[\w.-]+/g, '$1CURSOR')
}

/** Headers that belong to the connection, or are of no interest. */
const OF_CONNECTION = ['connection', 'date', 'keep-alive', 'transfer-encoding']

const HELMET = [
  ...['cross-origin-opener-policy', 'cross-origin-resource-policy', 'origin-agent-cluster'],
  ...['referrer-policy', 'strict-transport-security', 'x-dns-prefetch-control'],
  ...['x-download-options', 'x-frame-options', 'x-permitted-cross-domain-policies'],
  'x-xss-protection',
]

const COMPRESSION = ['content-encoding', 'content-length', 'vary']

/** What is reported of all operations: the one fault, and none of the refusals. */
const REPORTED: Readonly<Record<string, unknown>> = {
  sentry: ['a fault'],
  opentelemetry: [500],
}

test.each([
  { parent: 'compression 1.7', changed: COMPRESSION },
  { parent: 'compression 1.8', changed: COMPRESSION },
  { parent: 'morgan', changed: [] },
  { parent: 'express-session', changed: ['set-cookie'] },
  { parent: 'response-time', changed: ['x-response-time'] },
  { parent: 'helmet', changed: HELMET },
  { parent: 'all of these', changed: [...COMPRESSION, ...HELMET, 'set-cookie', 'x-response-time'] },
  { parent: 'express 4', changed: [] },
  // It gives each response a length.
  { parent: 'serverless-http', changed: ['content-length'] },
  { parent: 'sentry', changed: [] },
  { parent: 'opentelemetry', changed: [] },
])('in a parent with $parent every answer is the same', async ({ parent, changed }) => {
  const url = await startParent(parent)
  const ignored = [...OF_CONNECTION, ...changed]
  const comparable = ({ headers, ...answer }: Answer) => ({
    ...answer,
    headers: Object.fromEntries(
      Object.entries(headers).filter(([name]) => !ignored.includes(name)),
    ),
  })
  const answers = await answersOf(url)
  for (const [index, answer] of answers.entries()) {
    expect(comparable(answer)).toEqual(comparable(alone[index] as Answer))
    expect(answer.operation).toMatch(new RegExp(`^${answer.status} `))
  }
  // It collects each response, so it cannot have streams.
  if (parent === 'serverless-http') expect(await waitForChanges(url)).toEqual([200, []])
  else {
    expect(await firstEvents(url)).toEqual({
      type: 'text/event-stream',
      text: expect.stringContaining('event: user\ndata: {"id":1,'),
    })
  }
  const reported = await fetch(`${url}/reported`)
  expect(await reported.json()).toEqual(REPORTED[parent] ?? [])
})

test('the service with the tracing of its documentation has spans with routes, and no rejection is an error', async () => {
  const program = firstBlock(readProject('docs/operations/tracing.md'), 'js')
  writeFileSync(join(folder, 'tracing.mjs'), program)
  const service = await spawnService({
    cwd: folder,
    env: { NODE_OPTIONS: '--import ./tracing.mjs', OTEL_TRACES_EXPORTER: 'console' },
  })
  for (const operation of OPERATIONS.slice(0, 6)) await ask(service.url, operation)
  for (const id of [1, 77]) await fetch(`${service.url}/users/${id}`)
  const { stdout } = await service.end('SIGTERM')
  const spans = stdout.split(/^{$/m).flatMap(span => /^ {2}name: '(.*)'/m.exec(span)?.[1] ?? [])
  expect(spans.filter(name => name !== 'POST')).toEqual(['GET /users/:id', 'GET /users/:id'])
  expect(stdout).toContain("'http.route': '/users/:id'")
  expect(stdout).not.toMatch(/status: { code: 2/)
})
