import { createRequire } from 'node:module'
import { join } from 'node:path'
import express from 'express'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createUserRecords } from '../../src/library.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { installPackages } from '../support/packed-package.ts'

const LIMITS = { throttle: [{ path: '/nowhere', limit: 1, period: '1 hour' }] }

const ANN = { user: { name: 'Ann Å', email: 'ann@example.com' } }

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
      const { app, close } = await createUserRecords({ DATABASE_URL: ':memory:', LIMITS })
      onTestFinished(close)
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
        headers: { 'content-type': 'application/json' },
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
