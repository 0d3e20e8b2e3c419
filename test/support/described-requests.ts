import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { DescribedInterface, DescribedOperation } from './described-interface.ts'

/** A request to an operation of an OpenAPI document. */
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

/** A body, or headers, of this many bytes or more are too large. */
export const BODY_LIMIT_BYTES = 2048

/** One part of a request. */
interface Part<T> {
  readonly value: T
  readonly worth: Worth
}

type Headers = Readonly<Record<string, string>>

/** Mostly right values, and some of the others. */
function parts<T>(all: Readonly<Partial<Record<Worth, readonly T[]>>>): fc.Arbitrary<Part<T>> {
  const weighted = Object.entries(all).map(([worth, values]) => ({
    weight: worth === 'right' ? 16 : 2,
    arbitrary: fc.constantFrom(...values).map(value => ({ value, worth: worth as Worth })),
  }))
  return fc.oneof(...weighted)
}

function worst(worths: readonly Worth[]): Worth {
  if (worths.includes('odd')) return 'odd'
  return worths.includes('wrong') ? 'wrong' : 'right'
}

/** An operation with more ways to be wrong is chosen more often. */
const WEIGHTS: Readonly<Record<string, number>> = { GET: 4, POST: 12, PUT: 6, PATCH: 6, DELETE: 6 }

/** Any operation of the document, HEAD for GET too, with right and wrong parameters. */
export function describedRequests({ paths }: DescribedInterface): fc.Arbitrary<DescribedRequest> {
  const operations = Object.entries(paths).flatMap(([path, item]) => {
    const { get } = item
    return Object.entries({ ...item, ...(get && { head: get }) }).map(([name, operation]) => {
      const method = name.toUpperCase()
      const isPage = Object.keys(get?.responses['200']?.content ?? {}).join() === 'text/html'
      const arbitrary = requestsOf({ path, method, operation, isPage })
      return { weight: WEIGHTS[method] ?? 1, arbitrary }
    })
  })
  return fc.oneof(...operations)
}

interface Described {
  readonly path: string
  readonly method: string
  readonly operation: DescribedOperation
  /** Whether its response is always HTML. */
  readonly isPage: boolean
}

function requestsOf({
  path,
  method,
  operation,
  isPage,
}: Described): fc.Arbitrary<DescribedRequest> {
  const hasBody = operation.requestBody !== undefined
  const isList = operation.operationId === 'listUsers'
  const asksAccept = '406' in operation.responses
  return fc
    .record({
      path: path.includes('{id}') ? IDS : parts({ right: ['x'] }),
      query: isList ? listQueries() : parts({ right: ['', '', 'unknown=1', '%zz', 'a=b&a=c'] }),
      accept: acceptsOf(isPage, asksAccept ? 'wrong' : 'odd'),
      general: GENERAL_HEADERS,
      own: ownHeaders(operation),
      body: hasBody ? bodies(operation.operationId) : IGNORED_BODIES,
    })
    .map(({ query, accept, general, own, body, ...of }) => ({
      method,
      target: `${path.replace('{id}', of.path.value)}${query.value === '' ? '' : `?${query.value}`}`,
      headers: { ...accept.value, ...general.value, ...own.value, ...body.value.headers },
      body: body.value.bytes,
      worth: worst([of.path, query, accept, general, own, body].map(({ worth }) => worth)),
    }))
}

const IDS = parts({
  right: Array.from({ length: 40 }, (_, index) => String(index + 1)),
  odd: ['0', '-1', '01', '1.5', '1e3', 'abc', '%31', '%zz', '1%2F2', '%C3%A9', '9007199254740993'],
})

const INSTANTS = ['1970-01-01T00:00:00Z', '2026-01-31T12:00:00.123Z', '2199-12-31T23:59:59%2B01:00']

const SORTS = ['id', 'name', 'email', 'created_at', 'updated_at']

/** Right values of each query parameter of the list. */
export const LIST_PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  per_page: ['1', '2', '1000'],
  page: ['1', '2', '100000'],
  after: [LIVE_CURSOR],
  sort: [...SORTS, ...SORTS.map(name => `-${name}`)],
  email: ['known@example.com', 'KNOWN@EXAMPLE.COM', 'no%40body.example'],
  name: ['user%201', 'JOS%C3%89', '%F0%9F%98%80'],
  q: ['a', 'user%20exam', 'ZO%C3%8B', 'no%20such%20word', '%E7%8E%8B', '%22ann%22%20OR%20b*'],
  created_after: INSTANTS,
  created_before: INSTANTS,
  updated_after: INSTANTS,
  updated_before: INSTANTS,
  count: ['true', 'false'],
  envelope: ['true', 'false'],
}

const WRONG_QUERIES = [
  ...['unknown=1', 'PER_PAGE=1', 'per_page=', 'per_page=0', 'per_page=1001', 'per_page=1.5'],
  ...['per_page=ten', 'page=0', 'page=-1', 'page=1&page=1', 'page=1&after=x', 'after=x', 'q='],
  ...['sort=ID', 'sort=--id', 'q=*', 'q=a&q=b', 'count=1', 'count=TRUE', 'envelope=', 'email=%zz'],
  ...['created_after=yesterday', 'created_before=2026-01-31', 'updated_after=2026-02-30T00:00:00Z'],
  ...['%zz=1', '__proto__=1'],
]

function listQueries(): fc.Arbitrary<Part<string>> {
  const pairs = Object.entries(LIST_PARAMETERS).map(([name, values]) =>
    fc.constantFrom(...values).map(value => `${name}=${value}`),
  )
  const rightOnes = fc.tuple(...pairs).chain(all => fc.subarray(all, { maxLength: 4 }))
  return fc.tuple(rightOnes, parts({ right: [''], wrong: WRONG_QUERIES })).map(([sent, more]) => {
    // A cursor belongs to one sort, and takes the place of a page.
    const isAfter = sent.some(pair => pair.startsWith('after='))
    const allowed = sent.filter(pair => !isAfter || !/^(?:sort|page)=/.test(pair))
    const value = [more.value, ...allowed].filter(pair => pair !== '').join('&')
    return { value, worth: more.worth }
  })
}

function acceptsOf(isPage: boolean, unacceptable: Worth): fc.Arbitrary<Part<Headers>> {
  const right = isPage
    ? ['*/*', 'text/*', 'not a media type', 'application/json, text/html']
    : [
        ...['*/*', 'application/json', 'application/problem+json', 'application/*'],
        ...['application/problem+json, application/json;q=0.9', 'text/html;q=0.5, */*;q=0.1'],
        ...['not a media type', 'text/html, application/problem+json'],
      ]
  const others = ['image/png', 'application/json;q=0, image/png', 'application/xml']
  const accept = (value: string) => ({ Accept: value })
  return parts<Headers>({
    right: [{}, ...right.map(accept)],
    [unacceptable]: [...others, ...(isPage ? ['application/json'] : [])].map(accept),
  })
}

const GENERAL_HEADERS = fc.oneof(
  {
    weight: 60,
    arbitrary: parts<Headers>({
      right: [
        ...[{}, {}, {}, { 'X-Request-Id': 'sane-1' }, { 'X-Request-Id': 'a b"' }],
        ...['gzip, br', 'gzip', 'br;q=0'].map(value => ({ 'Accept-Encoding': value })),
        ...['https://app.example.com', 'null'].map(value => ({ Origin: value })),
      ],
      odd: [
        { 'X-Odd': '{"', Cookie: 'a=b;;', Authorization: 'Basic x' },
        { 'User-Agent': 'scanner' },
        { 'User-Agent': 'redirected' },
      ],
    }),
  },
  { weight: 1, arbitrary: parts<Headers>({ odd: [{ 'X-Large': 'x'.repeat(20_000) }] }) },
)

const TAGS = {
  right: [LIVE_TAG, '*', '"another"', `"another", ${LIVE_TAG}`],
  odd: ['', 'W/"weak"', 'bare', '"open', ',,', `W/${LIVE_TAG}`],
}

const OWN_HEADERS: Readonly<Record<string, Partial<Record<Worth, readonly string[]>>>> = {
  'If-Match': TAGS,
  'If-None-Match': TAGS,
  'Idempotency-Key': {
    right: ['key-1', 'key-2', '"key-1"', 'key-3', '!#$%', 'x'.repeat(255)],
    wrong: ['', '"', 'a b', '"open', 'a, b', 'x'.repeat(256), 'é'],
  },
}

/** The headers that the operation names. */
function ownHeaders({ parameters }: DescribedOperation): fc.Arbitrary<Part<Headers>> {
  const named = Object.entries(OWN_HEADERS).filter(([name]) =>
    parameters.some(parameter => parameter.name === name),
  )
  const all = Object.fromEntries(named.map(([name, values]) => [name, parts(values)]))
  return fc.record(all, { requiredKeys: [] }).map(sent => {
    const entries = Object.entries(sent).flatMap(([name, part]) =>
      part ? [[name, part] as const] : [],
    )
    return {
      value: Object.fromEntries(entries.map(([name, { value }]) => [name, value])),
      worth: worst(entries.map(([, { worth }]) => worth)),
    }
  })
}

interface Body {
  readonly bytes: Buffer | undefined
  readonly headers: Headers
}

const NAMES = {
  right: ['Ann', 'José', '王小明', '\u{1f600}'.repeat(255), 'ß'.repeat(255)],
  wrong: [null, '', ' ', 'a\u0000b', 'x\u202e', 'n'.repeat(256), 0, true, [], {}, ['Ann']],
}

const EMAILS = {
  right: Array.from({ length: 300 }, (_, index) => `new${index}@example.com`),
  wrong: [null, '', 'x', 'a b@example.com', 'a\u0000@example.com', 5, [], {}],
}

/** A password takes as long to hash as a hundred requests to answer. */
const PASSWORDS = {
  right: [...Array(15).fill(null), 'correct horse', '\u{1f600}'.repeat(128)],
  wrong: ['short', 'x'.repeat(129), 'long\tenough', 5, [], {}],
}

const NO_USERS = ['', 'null', '[]', '{}', '{"user":null}', '{"user":5}', '{"user":[]}'].concat([
  '{',
  '{"user":}',
  'user=1',
  '\u0000',
  '[1,]',
  '"\xff"',
])

function textsOf(operationId: string): fc.Arbitrary<Part<string>> {
  const isLogin = operationId === 'verifyPassword'
  const login = {
    email: parts<unknown>({
      right: [KNOWN_LOGIN.email, 'nobody@example.com'],
      wrong: [5, null, []],
    }),
    password: parts<unknown>({ right: [KNOWN_LOGIN.password, 'wrong horse'], wrong: [5, {}] }),
  }
  const user = { name: parts<unknown>(NAMES), email: parts<unknown>(EMAILS) }
  const required = operationId === 'createUser' ? (['name', 'email'] as const) : []
  const fields: fc.Arbitrary<Record<string, Part<unknown> | undefined>> = isLogin
    ? fc.record(login)
    : fc.record(
        { ...user, password: parts<unknown>(PASSWORDS), id: parts<unknown>({ right: [7] }) },
        { requiredKeys: [...required] },
      )
  const users = fields.map(sent => ({
    value: JSON.stringify({
      user: Object.fromEntries(Object.entries(sent).map(([name, part]) => [name, part?.value])),
    }),
    worth: worst(Object.values(sent).map(part => part?.worth ?? 'right')),
  }))
  return fc.oneof(
    { weight: 8, arbitrary: users },
    { weight: 1, arbitrary: parts({ wrong: NO_USERS }) },
  )
}

const ENCODERS = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  identity: (bytes: Buffer) => bytes,
}

const TYPES = parts<Headers>({
  right: [
    'application/json',
    'application/json; charset=utf-8',
    'APPLICATION/JSON;charset="UTF-8"',
  ].map(type => ({ 'Content-Type': type })),
  wrong: [
    ...['text/plain', '', 'application/xml', 'application/json; charset=latin1', 'json'],
    ...['application/x-www-form-urlencoded'],
  ].map(type => ({ 'Content-Type': type })),
})

/** How the bytes are sent, which may make any text wrong. */
const FORMS = parts<(bytes: Buffer) => Body>({
  right: [
    bytes => ({ bytes, headers: {} }),
    ...Object.entries(ENCODERS).map(([coding, encode]) => (bytes: Buffer) => {
      return { bytes: encode(bytes), headers: { 'Content-Encoding': coding } }
    }),
  ],
  wrong: [
    bytes => ({ bytes, headers: { 'Content-Encoding': 'gzip' } }),
    ...['zstd', 'compress', 'gzip, br'].map(coding => (bytes: Buffer) => {
      return {
        bytes: Buffer.concat([bytes, Buffer.from('!')]),
        headers: { 'Content-Encoding': coding },
      }
    }),
    bytes => ({ bytes: Buffer.concat([bytes, Buffer.alloc(BODY_LIMIT_BYTES, ' ')]), headers: {} }),
    () => ({ bytes: undefined, headers: {} }),
  ],
})

function bodies(operationId: string): fc.Arbitrary<Part<Body>> {
  return fc.tuple(textsOf(operationId), TYPES, FORMS).map(([text, type, form]) => {
    const { bytes, headers } = form.value(Buffer.from(text.value))
    return {
      value: { bytes, headers: { ...type.value, ...headers } },
      worth: worst([text.worth, type.worth, form.worth]),
    }
  })
}

/** Sent to operations without a body. */
const IGNORED_BODIES = parts<Body>({
  right: [
    { bytes: undefined, headers: {} },
    { bytes: Buffer.from('{'), headers: { 'Content-Type': 'text/plain' } },
  ],
})
