import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import express from 'express'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createUserRecords, type UserRecordsSettings } from '../../src/library.ts'
import { listen } from '../support/listen.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { installPackages } from '../support/packed-package.ts'
import { canUseNginx } from '../support/programs.ts'
import { startNginx } from '../support/start-nginx.ts'

const LIMITS = { throttle: [{ path: '/nowhere', limit: 1, period: '1 hour' }] }

const ANN = { user: { name: 'Ann Å', email: 'ann@example.com' } }

async function open(settings: UserRecordsSettings = {}) {
  const records = await createUserRecords({ DATABASE_URL: ':memory:', LIMITS, ...settings })
  onTestFinished(() => records.close())
  return records
}

const CLIENT = '198.51.100.7'

interface Asked {
  readonly method?: string
  readonly path: string
  readonly query?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly isBase64Encoded?: boolean
  readonly sourceIp?: string
}

/** As API Gateway makes them from a request, in both of its formats. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html */
const EVENTS = {
  v1: ({ method = 'GET', path, query = '', headers = {}, sourceIp = CLIENT, ...body }: Asked) => ({
    ...{ version: '1.0', resource: '/{proxy+}', path, httpMethod: method, headers, ...body },
    multiValueHeaders: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, [value]]),
    ),
    queryStringParameters: Object.fromEntries(new URLSearchParams(query)),
    multiValueQueryStringParameters: Object.fromEntries(
      [...new URLSearchParams(query)].map(([name, value]) => [name, [value]]),
    ),
    requestContext: { stage: '$default', identity: { sourceIp } },
  }),
  v2: ({ method = 'GET', path, query = '', headers = {}, sourceIp = CLIENT, ...body }: Asked) => ({
    ...{ version: '2.0', routeKey: '$default', rawPath: path, rawQueryString: query },
    ...{ headers, queryStringParameters: Object.fromEntries(new URLSearchParams(query)), ...body },
    requestContext: { stage: '$default', http: { method, path, sourceIp } },
  }),
}

interface Result {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

describe.each(['3.2.0', '4.0.0'])('serverless-http %s', version => {
  const folder = temporaryFolder(afterAll)
  beforeAll(() => installPackages(folder, `serverless-http@${version}`))

  test.each(Object.entries(EVENTS))(
    'gives the answers to events of API Gateway %s',
    async (_name, eventOf) => {
      const loaded = createRequire(join(folder, 'index.js'))('serverless-http')
      const serverless = loaded.default ?? loaded
      const { app } = await open()
      const handle: (event: object) => Promise<Result> = serverless(express().use('/v1', app))
      const ask = (asked: Asked) =>
        handle(
          eventOf({
            ...asked,
            path: `/v1${asked.path}`,
            headers: { host: 'api.example.com', ...asked.headers },
          }),
        )

      const create = {
        method: 'POST',
        path: '/users',
        headers: JSON_TYPE,
        body: JSON.stringify(ANN),
      }
      const created = await ask({ ...create, isBase64Encoded: false })
      expect(created).toMatchObject({ statusCode: 201, headers: { location: '/v1/users/1' } })
      expect(JSON.parse(created.body)).toMatchObject({ id: 1, name: 'Ann Å' })
      const encoded = Buffer.from(create.body).toString('base64')
      const again = await ask({ ...create, body: encoded, isBase64Encoded: true })
      expect(again.statusCode).toBe(422)
      expect(JSON.parse(again.body)).toMatchObject({ errors: { email: expect.anything() } })
      const listed = await ask({ path: '/users', query: 'per_page=1&count=true' })
      expect(listed).toMatchObject({ statusCode: 200, headers: { 'x-total-count': '1' } })
      expect(JSON.parse(listed.body)).toEqual([JSON.parse(created.body)])
      const whole = await ask({ path: '/users', headers: { accept: 'application/x-ndjson' } })
      expect(JSON.parse(whole.body)).toEqual(JSON.parse(created.body))
      expect(await ask({ method: 'DELETE', path: '/users/1' })).toMatchObject({ statusCode: 204 })
      const statuses: number[] = []
      for (const sourceIp of [CLIENT, CLIENT, '198.51.100.8']) {
        statuses.push((await ask({ path: '/nowhere', sourceIp })).statusCode)
      }
      expect(statuses).toEqual([404, 429, 404])
    },
  )
})

const JSON_TYPE = { 'content-type': 'application/json' }

async function useUsers(url: string): Promise<void> {
  const options = { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(ANN) }
  const created = await fetch(`${url}/users`, options)
  expect([created.status, created.headers.get('location')]).toEqual([201, '/users/1'])
  const list = await fetch(`${url}/users?count=true`)
  expect(await list.json()).toEqual([await created.json()])
}

test('app.listen takes a random port', async () => {
  const { app } = await open({ ALLOWED_HOSTS: '127.0.0.1' })
  const server = app.listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  await useUsers(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})

test.skipIf(!canUseNginx)('a Unix socket behind nginx serves, and knows each client', async () => {
  const path = join(temporaryFolder(), 'users.sock')
  const { app } = await open({ TRUST_PROXY: 'loopback' })
  await listen(createServer(app), { socketPath: path })
  const port = await startNginx(
    own => `server {
      listen 127.0.0.1:${own};
      location / {
        proxy_pass http://unix:${path}:;
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $http_x_client;
      }
    }`,
  )
  const url = `http://127.0.0.1:${port}`
  await useUsers(url)
  const statusFor = async (client: string) =>
    (await fetch(`${url}/nowhere`, { headers: { 'X-Client': client } })).status
  const clients = ['203.0.113.1', '203.0.113.1', '203.0.113.2']
  const statuses: number[] = []
  for (const client of clients) statuses.push(await statusFor(client))
  expect(statuses).toEqual([404, 429, 404])
})
