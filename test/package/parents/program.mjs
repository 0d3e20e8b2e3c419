/**
 * A server whose application has the service under `/api`, behind the middleware or under the instrumentation that its argument
 * names. Prints its port. `GET /reported` answers what Sentry or OpenTelemetry would report. It is copied into a project that has
 * installed them.
 */
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { text } from 'node:stream/consumers'

const load = createRequire(import.meta.url)

const reported = []

/** Middleware of the parent, by the argument. */
const MIDDLEWARE = {
  none: () => [],
  'compression 1.7': () => [load('old-compression')({ threshold: 0 })],
  'compression 1.8': () => [load('compression')({ threshold: 0 })],
  morgan: () => [load('morgan')('combined', { stream: { write() {} } })],
  'express-session': () => [
    load('express-session')({ secret: 'a', resave: true, saveUninitialized: true, rolling: true }),
  ],
  'response-time': () => [load('response-time')()],
  helmet: () => [load('helmet')()],
  'all of these': () =>
    ['compression 1.7', 'morgan', 'express-session', 'response-time', 'helmet'].flatMap(name =>
      MIDDLEWARE[name](),
    ),
  'express 4': () => [],
  'serverless-http': () => [],
  sentry: () => [],
  opentelemetry: () => [],
}

/** What must be loaded before Express. */
const BEFORE_EXPRESS = {
  sentry: () => {
    load('@sentry/node').init({
      dsn: 'https://key@localhost/1',
      tracesSampleRate: 1,
      sendDefaultPii: true,
      beforeSend: ({ exception }) => {
        reported.push(exception.values.at(-1).value)
        return null
      },
      traceLifecycle: 'static',
      beforeSendTransaction: () => null,
    })
  },
  opentelemetry: () => {
    const { NodeTracerProvider, SimpleSpanProcessor } = load('@opentelemetry/sdk-trace-node')
    const { registerInstrumentations } = load('@opentelemetry/instrumentation')
    const { HttpInstrumentation } = load('@opentelemetry/instrumentation-http')
    const { ExpressInstrumentation } = load('@opentelemetry/instrumentation-express')
    const { SpanKind, SpanStatusCode } = load('@opentelemetry/api')
    const exporter = {
      export: spans => {
        for (const { kind, status, attributes } of spans) {
          const isError = kind === SpanKind.SERVER && status.code === SpanStatusCode.ERROR
          if (isError) reported.push(attributes['http.response.status_code'])
        }
      },
      shutdown: async () => {},
    }
    new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register()
    registerInstrumentations({
      instrumentations: [new HttpInstrumentation(), new ExpressInstrumentation()],
    })
  },
}

const LIMITS = {
  bans: [{ path: '/nowhere', status: [404], maxretry: 9, findtime: 60, bantime: 60 }],
  rateLimits: [
    { to: 1, within: 3600, by: 'header:x-limited' },
    {
      ...{ to: 1, within: 3600, by: 'header:x-failing' },
      with: (_request, _response, next) => next(new Error('a fault')),
    },
  ],
}

const [name] = process.argv.slice(2)
BEFORE_EXPRESS[name]?.()
const express = load(name === 'express 4' ? 'old-express' : 'express')
const { createUserRecords } = await import('user-records-service')
const records = await createUserRecords({ DATABASE_URL: ':memory:', BODY_LIMIT: 1000, LIMITS })
const parent = express()
for (const middleware of MIDDLEWARE[name]()) parent.use(middleware)
parent.use('/api', records.app)
parent.get('/reported', (_request, response) => void response.json(reported))
if (name === 'sentry') load('@sentry/node').setupExpressErrorHandler(parent)
const server = name === 'serverless-http' ? serverlessServer(parent) : createServer(parent)
server.listen(0, '127.0.0.1', () => console.log(server.address().port))

/** Hands each request on as API Gateway does. */
function serverlessServer(app) {
  const handle = load('serverless-http')(app)
  return createServer(async (request, response) => {
    const { method, url, headers } = request
    const { pathname, searchParams } = new URL(url, 'http://localhost')
    const answer = await handle({
      ...{ httpMethod: method, path: pathname, headers, body: await text(request) },
      queryStringParameters: Object.fromEntries(searchParams),
      requestContext: { identity: { sourceIp: '198.51.100.7' } },
    })
    const encoding = answer.isBase64Encoded ? 'base64' : 'utf8'
    response.writeHead(answer.statusCode, answer.headers).end(Buffer.from(answer.body, encoding))
  })
}
