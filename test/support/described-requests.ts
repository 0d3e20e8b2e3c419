import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { DescribedInterface, DescribedOperation } from './described-interface.ts'

/** A request made from an OpenAPI document. */
export interface DescribedRequest {
  readonly method: string
  /** Path and query. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | undefined
  /** Whether the document allows the request, describes it as an error, or does not say. */
  readonly worth: Worth
}

export type Worth = 'right' | 'wrong' | 'odd'

/** Placeholders for values that only the service can make. The sender of the request replaces them. */
export const LIVE_TAG = '"live-tag"'
export const LIVE_CURSOR = 'live-cursor'

/** What a user that the sender creates can log in with. */
export const KNOWN_LOGIN = { email: 'known@example.com', password: 'correct horse' }

type Json = Readonly<Record<string, unknown>>

/** One part of a request. */
interface Part<T> {
  readonly value: T
  readonly worth: Worth
}

/** An operation with more ways to be wrong is chosen more often. */
const WEIGHTS: Readonly<Record<string, number>> = { GET: 4, POST: 12, PUT: 6, PATCH: 6, DELETE: 6 }

const ODD_IDS = [
  '0',
  '-1',
  '01',
  '1.5',
  '1e3',
  'abc',
  '%31',
  '%zz',
  '1%2F2',
  '%C3%A9',
  '9007199254740993',
]

/** A body, or headers, of this many bytes or more are too large. */
export const BODY_LIMIT_BYTES = 2048
const LARGE_HEADER = 'x'.repeat(20_000)

/** Any operation of the document, HEAD for GET too, with right and wrong parameters. */
export function describedRequests(described: DescribedInterface): fc.Arbitrary<DescribedRequest> {
  const operations = Object.entries(described.paths).flatMap(([path, item]) => {
    const { get } = item
    return Object.entries({ ...item, ...(get && { head: get }) }).map(([name, operation]) => {
      const method = name.toUpperCase()
      const arbitrary = requestsOf({ described, path, method, operation })
      return { weight: WEIGHTS[method] ?? 1, arbitrary }
    })
  })
  return fc.oneof(...operations)
}

interface Described {
  readonly described: DescribedInterface
  readonly path: string
  readonly method: string
  readonly operation: DescribedOperation
}

function requestsOf(of: Described): fc.Arbitrary<DescribedRequest> {
  const { described, path, method, operation } = of
  const hasBody = operation.requestBody !== undefined
  return fc
    .record({
      target: targets(of),
      query: queries(of),
      general: generalHeaders({
        asksAccept: '406' in operation.responses,
        isPage: typesOf(described.paths[path]?.get).join() === 'text/html',
      }),
      own: ownHeaders(of),
      body: hasBody ? bodies(of) : ignoredBodies(),
    })
    .map(({ target, query, general, own, body }) => {
      const isList = path === '/users' && (method === 'GET' || method === 'HEAD')
      const worths = [target.worth, general.worth, own.worth, ...(hasBody ? [body.worth] : [])]
      return {
        method,
        target: `${target.value}${query.value === '' ? '' : `?${query.value}`}`,
        headers: { ...general.value, ...own.value, ...body.value.headers },
        body: body.value.bytes,
        worth: worst(isList ? [...worths, query.worth] : worths),
      }
    })
}

function typesOf(operation: DescribedOperation | undefined): readonly string[] {
  return Object.keys(operation?.responses['200']?.content ?? {})
}

function worst(worths: readonly Worth[]): Worth {
  if (worths.includes('odd')) return 'odd'
  return worths.includes('wrong') ? 'wrong' : 'right'
}

function right<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<Part<T>> {
  return arbitrary.map(value => ({ value, worth: 'right' }))
}

function wrong<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<Part<T>> {
  return arbitrary.map(value => ({ value, worth: 'wrong' }))
}

function odd<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<Part<T>> {
  return arbitrary.map(value => ({ value, worth: 'odd' }))
}

function mostly<T>(
  usual: fc.Arbitrary<Part<T>>,
  ...others: fc.Arbitrary<Part<T>>[]
): fc.Arbitrary<Part<T>> {
  return fc.oneof(
    { weight: 8, arbitrary: usual },
    ...others.map(arbitrary => ({ weight: 1, arbitrary })),
  )
}

function targets({ described, path, operation }: Described): fc.Arbitrary<Part<string>> {
  if (!path.includes('{id}')) return right(fc.constant(path))
  const { schema = {} } = operation.parameters.find(({ name }) => name === 'id') ?? {}
  const put = (id: unknown) => path.replace('{id}', String(id))
  return mostly(
    right(fc.oneof(fc.integer({ min: 1, max: 40 }), valuesOf(schema, described)).map(put)),
    odd(fc.constantFrom(...ODD_IDS).map(put)),
  )
}

/** OpenAPI cannot say what a cursor or a word is. */
const SPECIAL_PARAMETERS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  after: fc.constant(LIVE_CURSOR),
  q: fc.constantFrom('a', 'user exam', 'ZOË', 'no such word', '王', '"ann" OR b*'),
}

function queries({ described, operation }: Described): fc.Arbitrary<Part<string>> {
  const known = operation.parameters.filter(parameter => parameter.in === 'query')
  const values = Object.fromEntries(
    known.map(({ name, schema }) => [
      name,
      SPECIAL_PARAMETERS[name] ?? valuesOf(schema, described),
    ]),
  )
  const pair = (name: string, value: unknown) =>
    `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`
  const rightOnes = fc.record(values, { requiredKeys: [] }).map(query => {
    // OpenAPI cannot say that a cursor belongs to another sort, or that a cursor excludes `page`.
    const left = 'after' in query ? ['sort', 'page'] : []
    const sent = Object.entries(query).filter(([name]) => !left.includes(name))
    return sent.map(([name, value]) => pair(name, value))
  })
  const broken = fc.constantFrom(
    ...['unknown=1', 'PER_PAGE=1', 'per_page=', 'per_page=0', 'per_page=1001', 'per_page=1.5'],
    ...[
      'per_page=ten',
      'page=0',
      'page=-1',
      'page=1&page=1',
      'page=1&after=x',
      'after=x',
      'sort=ID',
    ],
    ...[
      'sort=--id',
      'q=',
      'q=*',
      'q=a&q=b',
      'count=1',
      'count=TRUE',
      'envelope=',
      'email=%zz',
      'created_after=yesterday',
    ],
    ...['created_before=2026-01-31', 'updated_after=2026-02-30T00:00:00Z', '%zz=1', '__proto__=1'],
  )
  return mostly(
    right(rightOnes.map(pairs => pairs.join('&'))),
    wrong(fc.tuple(rightOnes, broken).map(([pairs, one]) => [one, ...pairs].join('&'))),
    odd(fc.string({ maxLength: 30 }).map(encodeURI)),
  )
}

const OF_JSON = [
  ...[undefined, '*/*', 'application/json', 'application/problem+json', 'application/*'],
  ...['application/problem+json, application/json;q=0.9', 'text/html;q=0.5, */*;q=0.1'],
  ...['not a media type', 'text/html, application/problem+json'],
]

const OF_PAGES = [undefined, '*/*', 'text/*', 'not a media type', 'application/json, text/html']

const OF_NEITHER = ['image/png', 'application/json;q=0, image/png', 'application/xml']

interface Acceptance {
  readonly asksAccept: boolean
  /** Whether its response is always HTML. */
  readonly isPage: boolean
}

/** Headers that any request may have. */
function generalHeaders({
  asksAccept,
  isPage,
}: Acceptance): fc.Arbitrary<Part<Readonly<Record<string, string>>>> {
  const unacceptable = isPage ? [...OF_NEITHER, 'application/json'] : OF_NEITHER
  const accepts = mostly(
    right(fc.constantFrom(...(isPage ? OF_PAGES : OF_JSON))),
    fc.constantFrom(...unacceptable).map(value => ({
      value,
      worth: asksAccept ? ('wrong' as const) : ('odd' as const),
    })),
  )
  const more = mostly(
    right(fc.constant({})),
    right(fc.record({ 'X-Request-Id': headerText() })),
    right(
      fc.constantFrom('gzip, br', 'gzip', 'br;q=0').map(value => ({ 'Accept-Encoding': value })),
    ),
    right(fc.constantFrom({ Origin: 'https://app.example.com' }, { Origin: 'null' })),
    odd(fc.record({ 'X-Odd': headerText(), Cookie: headerText(), Authorization: headerText() })),
    odd(fc.constantFrom({ 'User-Agent': 'scanner' }, { 'User-Agent': 'redirected' })),
  )
  const large = odd(fc.constant({ 'X-Large': LARGE_HEADER }))
  const rest = fc.oneof({ weight: 60, arbitrary: more }, { weight: 1, arbitrary: large })
  return fc.tuple(accepts, rest).map(([accept, others]) => ({
    value: { ...(accept.value !== undefined && { Accept: accept.value }), ...others.value },
    worth: worst([accept.worth, others.worth]),
  }))
}

function headerText(): fc.Arbitrary<string> {
  return fc.string({ maxLength: 40 }).map(text => text.trim())
}

/** The headers that the operation names. */
function ownHeaders(of: Described): fc.Arbitrary<Part<Readonly<Record<string, string>>>> {
  const { described, operation } = of
  const names = operation.parameters.map(({ name }) => name)
  const tags = fc.constantFrom(LIVE_TAG, '*', '"another"', `"another", ${LIVE_TAG}`)
  const oddTags = fc.constantFrom('', 'W/"weak"', 'bare', '"open', ',,', `W/${LIVE_TAG}`)
  const all: Record<string, fc.Arbitrary<Part<string>>> = {}
  for (const name of ['If-Match', 'If-None-Match']) {
    if (names.includes(name)) all[name] = mostly(right(tags), odd(oddTags))
  }
  const { schema } = operation.parameters.find(({ name }) => name === 'Idempotency-Key') ?? {}
  if (schema !== undefined) {
    all['Idempotency-Key'] = fc.oneof(
      right(fc.constantFrom('key-1', 'key-2', '"key-1"', 'key-3')),
      right(
        fc.stringMatching(new RegExp(String(schema.pattern))).filter(isValid(schema, described)),
      ),
      wrong(fc.constantFrom('', '"', 'a b', '"open', 'a, b', 'x'.repeat(256), 'é')),
    )
  }
  return fc.record(all, { requiredKeys: [] }).map(parts => {
    const entries = Object.entries(parts) as [string, Part<string>][]
    return {
      value: Object.fromEntries(entries.map(([name, { value }]) => [name, value])),
      worth: worst(entries.map(([, { worth }]) => worth)),
    }
  })
}

interface Body {
  readonly bytes: Buffer | undefined
  readonly headers: Readonly<Record<string, string>>
}

const ENCODERS = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  identity: Buffer.from,
}

function bodies({ described, operation }: Described): fc.Arbitrary<Part<Body>> {
  const { schema = {} } = operation.requestBody?.content['application/json'] ?? {}
  const anyValues = valuesOf(schema, described)
  const isLogin = operation.operationId === 'verifyPassword'
  const values = isLogin ? fc.oneof(fc.constant({ user: KNOWN_LOGIN }), anyValues) : anyValues
  const texts = values.map(value => JSON.stringify(value)).filter(isSmall)
  const isBroken = (value: unknown) => !isValid(schema, described)(value)
  const brokenValues = fc.oneof(
    fc.tuple(values, mutations()).map(([value, mutate]) => mutate(value as Json)),
    fc.jsonValue(),
  )
  const broken = brokenValues.filter(isBroken).map(value => JSON.stringify(value))
  const noJson = fc.constantFrom('', '{', '{"user":}', 'user=1', '\u0000', '[1,]')
  const inUtf8 = (text: string) => Buffer.from(text)
  const types = fc.constantFrom(
    ...['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON;charset="UTF-8"'],
  )
  const otherTypes = fc.constantFrom(
    ...['text/plain', '', 'application/xml', 'application/json; charset=latin1', 'json'],
    ...['application/x-www-form-urlencoded', 'application/merge-patch+json'],
  )
  const plain = (bytes: fc.Arbitrary<Buffer>, type: fc.Arbitrary<string>) =>
    fc.tuple(bytes, type).map(([value, contentType]): Body => {
      return { bytes: value, headers: { 'Content-Type': contentType } }
    })
  const encoded = fc
    .tuple(texts, fc.constantFrom(...(Object.keys(ENCODERS) as (keyof typeof ENCODERS)[])))
    .map(([text, coding]): Body => {
      const headers = { 'Content-Type': 'application/json', 'Content-Encoding': coding }
      return { bytes: ENCODERS[coding](Buffer.from(text)), headers }
    })
  const lying = texts.map((text): Body => {
    const headers = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
    return { bytes: Buffer.from(text), headers }
  })
  const unknownCoding = fc.tuple(lying, fc.constantFrom('zstd', 'compress', 'gzip, br'))
  const large = texts.map(text => Buffer.from(text + ' '.repeat(BODY_LIMIT_BYTES)))
  return fc.oneof(
    { weight: 8, arbitrary: right(plain(texts.map(inUtf8), types)) },
    { weight: 2, arbitrary: right(encoded) },
    { weight: 6, arbitrary: wrong(plain(broken.map(inUtf8), types)) },
    { weight: 1, arbitrary: wrong(plain(noJson.map(inUtf8), types)) },
    { weight: 1, arbitrary: wrong(plain(fc.constant(Buffer.from([0x22, 0xff, 0x22])), types)) },
    { weight: 1, arbitrary: wrong(plain(texts.map(inUtf8), otherTypes)) },
    { weight: 1, arbitrary: wrong(plain(large, types)) },
    { weight: 1, arbitrary: wrong(lying) },
    {
      weight: 1,
      arbitrary: wrong(
        unknownCoding.map(([body, coding]) => {
          return { ...body, headers: { ...body.headers, 'Content-Encoding': coding } }
        }),
      ),
    },
    { weight: 1, arbitrary: wrong(fc.constant({ bytes: undefined, headers: {} })) },
  )
}

function isSmall(text: string): boolean {
  return Buffer.byteLength(text) <= BODY_LIMIT_BYTES
}

/** Changes that make a body invalid, and some that validation ignores. */
function mutations(): fc.Arbitrary<(body: Json) => unknown> {
  const values = fc.constantFrom<unknown>(
    null,
    0,
    true,
    [],
    {},
    ['Ann'],
    '',
    ' ',
    '\t',
    'a\u0000b',
    'x\u202e',
  )
  const fields = fc.constantFrom('name', 'email', 'password', 'id', '__proto__', 'created_at')
  const userOf = (body: Json) => body.user as Json
  return fc.oneof(
    fc.tuple(fields, values).map(([field, value]) => (body: Json) => ({
      user: { ...userOf(body), [field]: value },
    })),
    fc.constantFrom('name', 'email').map(field => (body: Json) => {
      const { [field]: _left, ...rest } = userOf(body)
      return { user: rest }
    }),
    values.map(user => () => ({ user })),
    fc.constant((body: Json) => userOf(body)),
    fc.constant((body: Json) => [body]),
  )
}

/** Sent to operations without a body. */
function ignoredBodies(): fc.Arbitrary<Part<Body>> {
  return mostly<Body>(
    right(fc.constant({ bytes: undefined, headers: {} })),
    right(fc.constant({ bytes: Buffer.from('{'), headers: { 'Content-Type': 'text/plain' } })),
  )
}

function isValid(schema: Json, described: DescribedInterface): (value: unknown) => boolean {
  const validate = described.compile(schema)
  return value => validate(value) as boolean
}

/** Values that a schema of the document accepts. */
function valuesOf(schema: Json, described: DescribedInterface): fc.Arbitrary<unknown> {
  const { $ref, type, enum: members, minimum, maximum, properties, required } = schema
  if (typeof $ref === 'string') {
    return valuesOf(described.schemas[$ref.split('/').at(-1) ?? ''] ?? {}, described)
  }
  if (Array.isArray(members)) return fc.constantFrom(...members)
  if (Array.isArray(type)) {
    return fc.oneof(...type.map(one => valuesOf({ ...schema, type: one }, described)))
  }
  if (type === 'null') return fc.constant(null)
  if (type === 'boolean') return fc.boolean()
  if (type === 'integer') {
    const [min, max] = [Number(minimum), Number(maximum)]
    return fc.oneof(
      fc.integer({ min, max }),
      fc.integer({ min, max: Math.min(max, min + 9) }),
      fc.constant(max),
    )
  }
  if (type === 'string') return stringsOf(schema, described)
  if (type !== 'object') throw new Error(`no values for ${JSON.stringify(schema)}`)
  const fields: Record<string, fc.Arbitrary<unknown>> = {}
  for (const [name, property] of Object.entries(properties as Record<string, Json>)) {
    const values = valuesOf(property, described)
    // A password takes as long to hash as a hundred requests to answer.
    const isOptional = !(required as string[] | undefined)?.includes(name)
    fields[name] = name === 'password' && isOptional ? seldom(values) : values
  }
  return fc
    .record(fields, { requiredKeys: (required ?? []) as string[] })
    .map(value => JSON.parse(JSON.stringify(value)))
}

/** Absent or empty in most cases. */
function seldom(values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 15, arbitrary: fc.constantFrom(undefined, null) },
    { weight: 1, arbitrary: values },
  )
}

function stringsOf(schema: Json, described: DescribedInterface): fc.Arbitrary<string> {
  const min = Number(schema.minLength ?? 0)
  const max = Number(schema.maxLength ?? 40)
  if (schema.format === 'email') return fc.emailAddress().filter(isValid(schema, described))
  if (schema.format === 'date-time') {
    const [from, to] = [new Date('1970-01-01'), new Date('2200-01-01')]
    return fc.date({ min: from, max: to, noInvalidDate: true }).map(date => date.toISOString())
  }
  // Random strings would almost never match a pattern.
  if (schema.pattern !== undefined && schema.maxLength === undefined) {
    return fc.stringMatching(new RegExp(String(schema.pattern))).filter(isValid(schema, described))
  }
  return fc
    .oneof(
      fc.string({ minLength: min, maxLength: Math.min(max, min + 20), unit: 'grapheme' }),
      fc.string({ minLength: min, maxLength: Math.min(max, min + 20), unit: 'binary' }),
      fc.constantFrom('a'.repeat(Math.max(min, 1)), '\u{1f600}'.repeat(max), 'ß'.repeat(max)),
    )
    .filter(isValid(schema, described))
}
