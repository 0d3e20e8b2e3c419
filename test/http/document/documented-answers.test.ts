import { Agent, request as sendRequest } from 'node:http'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openKeyedApp } from '../../support/api-keys.ts'
import { newUserBody } from '../../support/builders.ts'
import {
  findOperation,
  type ReceivedAnswer,
  undocumented,
} from '../../support/described-answers.ts'
import { followReferences } from '../../support/described-interface.ts'
import {
  BODY_LIMIT_BYTES,
  type DescribedRequest,
  describedRequests,
  KNOWN_LOGIN,
  LIST_PARAMETERS,
  LIVE_CURSOR,
  LIVE_TAG,
} from '../../support/described-requests.ts'
import { inForm, SEED } from '../../support/faults.ts'
import { openTestApp, type TestApp } from '../../support/open-test-app.ts'

const REQUESTS = inForm({ short: 1000, long: 60_000 })

/** The most requests that run at once. */
const AT_ONCE = 10

const USERS = 12

/** A client that remembers what the service last answered. It uses `bearers` in turn. */
async function createClient({ port, http }: TestApp, bearers: readonly string[]) {
  const [first = ''] = bearers
  let turn = 0
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  onTestFinished(() => agent.destroy())
  let tag = '"none"'
  const { headers } = await http.get('/users?per_page=1').set('Authorization', first).expect(200)
  const [, cursor = ''] = /after=([\w-]+)/.exec(headers.link ?? '') ?? []

  function learn({ rawHeaders }: ReceivedAnswer): void {
    const at = rawHeaders.indexOf('ETag')
    if (at >= 0) tag = rawHeaders[at + 1] ?? tag
  }

  return function send({ method, target, headers, body }: DescribedRequest) {
    return new Promise<ReceivedAnswer>((resolve, reject) => {
      const live = Object.entries(headers).map(([name, value]) => [
        name,
        Buffer.from(value.replaceAll(LIVE_TAG, tag)).toString('latin1'),
      ])
      const options = {
        ...{ port, agent, method },
        path: target.replace(LIVE_CURSOR, cursor),
        headers: {
          Authorization: bearers[turn++ % bearers.length],
          ...Object.fromEntries(live),
          ...(body !== undefined && { 'Content-Length': body.length }),
        },
      }
      const request = sendRequest(options, response => {
        const chunks: Buffer[] = []
        response.on('error', reject)
        response.on('data', chunk => chunks.push(chunk))
        response.on('end', () => {
          const { statusCode: status = 0, rawHeaders } = response
          const answer = { status, rawHeaders, body: Buffer.concat(chunks) }
          learn(answer)
          resolve(answer)
        })
      })
      request.on('error', reject)
      request.end(body)
    })
  }
}

const LIMITS = {
  safelist: [{ header: { 'x-safe': '*' } }],
  blocklist: [{ name: 'scanners', userAgent: 'scanner' }],
  bans: [{ path: '/docs', maxretry: 3, findtime: 60, bantime: 1, by: 'header:x-request-id' }],
  throttle: [
    { name: 'odd "quotes"', path: '/openapi.json', limit: 20, period: 5 },
    {
      ...{ name: 'elsewhere', userAgent: 'redirected', limit: 1, period: 60 },
      with: { redirect: '/busy', alert: 'Too many' },
    },
  ],
  rateLimits: [
    { name: 'created', to: 60, within: 5, only: ['create'] },
    { name: 'changed', to: 10, within: 60, only: ['update'], by: 'path' },
    { name: 'addresses', to: 1, within: 60, only: ['create'], by: 'body:user.email' },
    { name: 'all', to: 100_000, within: 60 },
    {
      ...{ name: 'deletions', to: 20, within: 5, only: ['delete'] },
      with: { status: 418, message: 'Not now', headers: { 'Retry-After': '7' } },
    },
  ],
}

interface Variant {
  readonly limits?: object
  readonly env?: Readonly<Record<string, string>>
  /** The statuses that must occur, or the test proves nothing. */
  readonly statuses: readonly number[]
}

const EVERYWHERE = [200, 201, 204, 304, 400, 404, 406, 412, 413, 415, 422, 431]

const VARIANTS: Readonly<Record<string, Variant>> = {
  'without limits': { statuses: [...EVERYWHERE, 410] },
  'with limits and CORS': {
    limits: LIMITS,
    env: { CORS_ORIGINS: 'https://app.example.com' },
    statuses: [...EVERYWHERE, 302, 403, 418, 429],
  },
  'with keys': { env: { API_KEYS: 'required' }, statuses: [...EVERYWHERE, 401, 403] },
}

describe.each(Object.entries(VARIANTS))('%s', (_name, { limits, env = {}, statuses }) => {
  test(
    `every answer to ${REQUESTS} requests made from the document is in it`,
    async () => {
      const app = await openKeyedApp(
        [{ name: 'all' }, { name: 'reader', scopes: ['users:read'] }],
        {
          env: { API_KEYS: 'off', ...env, BODY_LIMIT: `${BODY_LIMIT_BYTES}b` },
          ...(limits && { limits }),
        },
      )
      const [all = '', reader = ''] = app.bearers
      const isOpen = env.API_KEYS === undefined
      const described = followReferences((await app.http.get('/openapi.json')).body)
      for (let count = 0; count < USERS; count++) {
        await app.http.post('/users').set('Authorization', all).send(newUserBody())
      }
      await app.http.post('/users').set('Authorization', all).send(newUserBody(KNOWN_LOGIN))
      const send = await createClient(app, [...Array(8).fill(all), reader, 'Bearer unknown'])
      const met = new Map<number, number>()
      const welcome = new Set<string>()
      let sent = 0

      async function expectDocumented(request: DescribedRequest): Promise<void> {
        const answer = await send(request)
        const { status } = answer
        sent++
        met.set(status, (met.get(status) ?? 0) + 1)
        const operation = findOperation(described, request)
        if (request.method !== 'HEAD' && status < 300) welcome.add(operation?.operationId ?? '')
        const hasOthers = [302, 418].includes(status) && limits !== undefined
        expect(undocumented(described, request, answer, { hasOthers })).toEqual([])
        if (limits === undefined && isOpen) expectWorth(request, answer)
      }

      const requests = fc.array(describedRequests(described), {
        minLength: 1,
        maxLength: AT_ONCE,
        size: 'max',
      })
      const property = fc.asyncProperty(requests, async all => {
        await Promise.all(all.map(expectDocumented))
      })
      const ids = Object.values(described.paths)
        .flatMap(item => Object.values(item))
        .map(({ operationId }) => operationId)
      const isMissing = () =>
        statuses.some(status => !met.has(status)) || ids.some(id => !welcome.has(id))
      for (let round = 0; sent < REQUESTS || (isMissing() && sent < 5 * REQUESTS); round++) {
        await fc.assert(property, { seed: (SEED + round) | 0, numRuns: 50 })
      }
      console.log(JSON.stringify({ sent, seed: SEED, met: Object.fromEntries(met) }))
      expect([...met.keys()]).toEqual(expect.arrayContaining([...statuses]))
      expect([...welcome].sort()).toEqual(ids.sort())
    },
    inForm({ short: undefined, long: 1_800_000 }),
  )
})

test('the requests have every query parameter of the list', async () => {
  const { http } = await openTestApp()
  const { paths } = followReferences((await http.get('/openapi.json')).body)
  const described = paths['/users']?.get?.parameters.filter(parameter => parameter.in === 'query')
  const names = described?.map(({ name }) => name)
  expect(Object.keys(LIST_PARAMETERS).sort()).toEqual(names?.sort())
})

/** A request that the document allows is accepted, and any other is refused. */
function expectWorth({ worth }: DescribedRequest, { status, body }: ReceivedAnswer): void {
  if (worth === 'wrong') expect(status, `${body}`).toBeGreaterThanOrEqual(400)
  if (worth !== 'right') return
  expect([400, 406, 413, 415], `${body}`).not.toContain(status)
  if (status === 422 && body.length > 0) {
    expect(`${body}`).toMatch(
      /has already been taken|was used with another body|Wrong email or password/,
    )
  }
}
