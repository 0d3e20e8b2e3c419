import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'

/** One request, or something similar to a request. */
export interface OddRequest {
  readonly bytes: Buffer
  /** Whether its end is unambiguous. It must then get exactly one response. */
  readonly isWhole: boolean
}

/** What the service has that requests may use. */
export interface OddOptions {
  readonly paths: readonly string[]
  /** Entity tags. */
  readonly tags: readonly string[]
}

/** Part of every password. */
export const SECRET = 'hunter2-never-shown'

/** Part of every e-mail address. */
export const DOMAIN = 'nonsense.example'

/** The name of users that must never exist. */
export const FORBIDDEN = 'Forbidden'

/** The X-Request-Id of a hidden request, which only some servers would see. It would create a user. */
export const HIDDEN_ID = 'hidden-request'

/** Splits a text at ` | ` and at line ends, but not at those of HTTP. */
const listed = (text: string): readonly string[] => text.split(/ \| ?|(?<!\r)\n/)

const oneOf = (text: string) => fc.constantFrom(...listed(text))

/** Uses the first arbitrary in most cases. */
const mostly = <T>(usual: fc.Arbitrary<T>, ...odd: readonly fc.Arbitrary<T>[]) =>
  fc.oneof({ weight: 15, arbitrary: usual }, ...odd)

/** Bytes as text. The middle of a long one is left out. */
export function shown(bytes: Buffer): string {
  const text = JSON.stringify(bytes.toString('latin1'))
  return text.length < 4000 ? text : `${text.slice(0, 2000)} … ${text.slice(-2000)}`
}

const METHODS = `GET | GET | GET | HEAD | POST | POST | POST | PUT | PATCH | PUT | DELETE | OPTIONS | TRACE | CONNECT | QUERY | PRI
get | G3T | \xdcn | \0 | `

const PATHS =
  listed(`/users | /users | /users | /users | / | /livez | /readyz | /users/0 | /users/-1 | /users/1e3 | /users/9007199254740993
/users/%31 | /users/%zz | /users/%ff | /users/%00 | /users/1/ | //users | /USERS | /users/..;/ | /%2e%2e/%2e%2e/etc/passwd
/__proto__ | /users/constructor | /? | /users#x | * | http://x/users | http://[/ | http://[::1]:80/users/1 | http:///users
http:\\\\x\\users | x:1 | // | /us\xe9rs | /a b | /\0 | /% | /openapi.json | /docs | /users/"<>\\^\`{|} | /users/${'9'.repeat(5000)}
/${'a'.repeat(17_000)} | `)

const PARAMETERS = `per_page | page | after | sort | email | name | q | created_after | updated_before | count | envelope | __proto__
toString | page[] | sort%00 | %zz | offset | `

const VALUES = `0 | 1 | 1000 | 1001 | -1 | 1.5 | 01 | 99999999999999999999 | true | TRUE | id | -name | id,name | --id
2026-01-31T12:00:00Z | 2026-02-30T12:00:00Z | 9999-12-31T23:59:59.9999999Z | 2026-01-31T12:00:00+14:00
% | %zz | %ff | %00 | %F0%9F%98%80 | %ED%A0%80 | + | ["a"] | WyJhIiwiYiJd | ${'x'.repeat(9000)} | `

const HEADERS: Readonly<Record<string, string>> = {
  Accept: `application/problem+json | */*;q=0 | , | application/json;q=0, */* | text/html | garbage | a/b;c="\\" | ${'a/b,'.repeat(2000)} | `,
  'Content-Type': `text/plain | application/JSON; Charset="UTF-8" | application/json;charset=latin1 | application/json; | */* | `,
  'Content-Encoding': 'gzip | deflate | br | identity | zstd | gzip, br | constructor | ',
  Host: `a b | [ | [::1] | x:99999999 | x@y | * | \xff | % | ${'a'.repeat(5000)} | `,
  'If-Match': `* | "1" | W/"1" | "" | " | *, "1" | , | "\xff" | ${'"'.repeat(5000)} | ${'W/'.repeat(5000)} | `,
  'If-None-Match': `* | "1" | W/"1" | " | *, "1" | \xff | ${'W/'.repeat(5000)} | `,
  'Idempotency-Key': `key | "key" | other | a b | " | \xff | ${'a'.repeat(255)} | ${'a'.repeat(256)} | `,
  'X-Request-Id': `sane | <b> | \xff | %0d%0aX: y | ${'x'.repeat(128)} | ${'x'.repeat(129)} | `,
  Connection:
    'close | keep-alive | Upgrade | Upgrade\r\nUpgrade: h2c | Host | Content-Length | \xff | ',
  Expect: '100-continue | 100-Continue | 200-ok | ',
  Range: 'bytes=0-0 | users=1',
  Origin: `https://example.com | https://evil.example | null | http://[ | HTTP://LOCALHOST | \xff | ${'x'.repeat(5000)} | `,
  'X-HTTP-Method-Override': 'DELETE',
  'X-Forwarded-For': `203.0.113.1 | ::1 | ${'x'.repeat(5000)}`,
  TE: 'trailers | chunked',
  Trailer: 'Content-Length',
  Cookie: `${'a=b; '.repeat(500)} | ${'a=b; '.repeat(4000)}`,
  Authorization: 'Basic Og== | Bearer \xff',
  constructor: 'x',
}

/** Headers of every request, each with other values that it sometimes has. */
const USUAL: Readonly<Record<string, readonly [value: string, ...odd: readonly string[]]>> = {
  Host: ['localhost', 'x', ''],
  'Content-Type': ['application/json', 'text/plain', 'application/json;charset=utf-8'],
  Accept: ['*/*', 'application/problem+json', 'text/html'],
}

/** Names and values of headers; bytes are characters. */
const headerOf = (tags: readonly string[]) =>
  fc.oneof(
    {
      weight: 9,
      arbitrary: fc
        .constantFrom(...Object.keys(HEADERS))
        .chain(name => fc.tuple(fc.constant(name), oneOf(HEADERS[name] ?? ''))),
    },
    {
      weight: 3,
      arbitrary: fc.tuple(oneOf('If-Match | If-None-Match'), fc.constantFrom(...tags)),
    },
    fc.tuple(
      oneOf('__proto__ | a b | x\xff | Accept | Host | '),
      fc.string({ unit: fc.nat(255).map(code => String.fromCharCode(code)), maxLength: 20 }),
    ),
  )

const TEXTS = [
  ...['', ' ', 'a'.repeat(255), 'a'.repeat(256), '😀'.repeat(255), 'e\u0301', '\ufb2c'.repeat(128)],
  ...['\0', 'a\u0085b', '\u202e', '\ud800', 'a\udc00', '\ufeff', "'; DROP TABLE users --", '%s%n'],
]

/** JSON text of a field. */
const oddValue = fc.oneof(
  fc.constantFrom(...TEXTS).map(text => JSON.stringify(text)),
  oneOf('0 | -0 | 1e400 | 1e-400 | 12345678901234567890123 | [] | {} | true | {"__proto__":0}'),
  fc.string({ unit: 'binary', maxLength: 20 }).map(text => JSON.stringify(text)),
  fc.json({ maxDepth: 3 }),
)

const email = fc.oneof(
  { weight: 8, arbitrary: fc.nat(300).map(n => `"e${n}@${DOMAIN}"`) },
  oneOf(` E1@ | a@b@ | é@ | @ | ${'a.'.repeat(9000)}@`).map(start => `"${start}${DOMAIN}"`),
)

// Few valid ones, because each of them is hashed.
const password = fc.oneof(
  { weight: 40, arbitrary: fc.constantFrom('null', undefined) },
  fc.constantFrom(...TEXTS).map(odd => JSON.stringify(`${SECRET}${odd}`)),
  fc.constantFrom(`["${SECRET}"]`, `{"${SECRET}":1}`, '"short"', 'false'),
)

const NAMES = ['__proto__', 'constructor', 'id', 'toString', 'created_at', 'name', 'email', '']

/** The JSON text of `{"user": {…}}` with one or two odd parts, or of something else. */
const userBody = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .record({
        name: fc.oneof({ weight: 4, arbitrary: fc.constant('"Ann"') }, oddValue),
        email: fc.oneof({ weight: 6, arbitrary: email }, oddValue),
        password,
        more: fc.option(fc.tuple(fc.constantFrom(...NAMES), oddValue), { freq: 3 }),
        wrapper: mostly(fc.constant('user'), fc.constantFrom(...NAMES)),
      })
      .map(({ more, wrapper, ...fields }) => {
        const members = [...Object.entries(fields), ...(more === null ? [] : [more])]
          .filter(([, value]) => value !== undefined)
          .map(([key, value]) => `"${key}":${value}`)
        return `{"${wrapper}":{${members.join(',')}}}`
      }),
  },
  // Always the same body, for idempotency keys, which promise that.
  { weight: 2, arbitrary: fc.constant(`{"user":{"name":"Kim","email":"kim@${DOMAIN}"}}`) },
  oneOf(`null | [] | {} | "user" | {"user":null} | {"user":[]} | \ufeff{} | {"user":{}}x | {"user":{} | {"user":NaN}
{'user':{}} | {"user":{},} | {"user":{},"user":{}} | {"__proto__":{"user":{}}} | `),
  fc.constantFrom(
    '['.repeat(50_000) + ']'.repeat(50_000),
    `${'{"user":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
    `{"user":{"name":"${'a'.repeat(100_000)}"}}`,
    `{"user":{"password":"${SECRET.repeat(5000)}"}}`,
    'x'.repeat(200_000),
  ),
)

type Code = (bytes: Buffer) => Buffer

/** Not the smallest possible size, because that takes seconds. */
const brotli: Code = bytes =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })

const CODINGS: readonly (readonly [coding: string, code: Code])[] = [
  ['gzip', gzipSync],
  ['X-GZip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotli],
  ['gzip', bytes => gzipSync(bytes).subarray(0, -5)],
  ['br', bytes => brotli(bytes).subarray(0, -1)],
  ['gzip', bytes => Buffer.concat([gzipSync(bytes), bytes])],
  ['gzip, gzip', bytes => gzipSync(gzipSync(bytes))],
  ['gzip', bytes => bytes],
  ['br', gzipSync],
  ['zstd', bytes => bytes],
]

const TOO_LARGE = Buffer.alloc(20_000_000, ' ')
TOO_LARGE.write(`{"user":{"name":"${FORBIDDEN}","email":"too.large@${DOMAIN}"}}`)

interface Body {
  readonly coding?: string
  readonly bytes: Buffer
}

/** Some kB that decompress to 20 MB and would create a user, and a body that is too long by more than a frame cuts off. */
const BOMBS: readonly Body[] = [
  ...Object.entries({ gzip: gzipSync, deflate: deflateSync, br: brotli }).map(([coding, code]) => ({
    coding,
    bytes: code(TOO_LARGE),
  })),
  { bytes: TOO_LARGE.subarray(0, 102_500) },
]

/** A text in UTF-8, in another encoding, compressed, or a bomb. */
function encoded(text: fc.Arbitrary<string>): fc.Arbitrary<Body> {
  const bytes = text.map(plain => Buffer.from(plain))
  return mostly<Body>(
    bytes.map(plain => ({ bytes: plain })),
    text.map(plain => ({ bytes: Buffer.from(plain, 'utf16le') })),
    text.map(plain => ({ bytes: Buffer.from(plain.replace('Ann', '\xed\xa0\x80'), 'latin1') })),
    ...[1, 2, 3].map(() =>
      fc
        .tuple(fc.constantFrom(...CODINGS), bytes)
        .map(([[coding, code], plain]) => ({ coding, bytes: code(plain) })),
    ),
    fc.constantFrom(...BOMBS),
  )
}

/** The headers that say where a body ends, and the body in that framing. */
type Frame = (body: Buffer) => readonly [headers: string, bytes: Buffer, isWhole: boolean]

const CHUNKED = 'Transfer-Encoding: chunked\r\n'

const byLength: Frame = bytes => [`Content-Length: ${bytes.length}\r\n`, bytes, true]

/** A chunk with an extension, and a trailer. */
const inChunks: Frame = body => {
  const chunk = [Buffer.from(`${body.length.toString(16)};a="b"\r\n`), body, Buffer.from('\r\n')]
  const chunks = body.length === 0 ? [] : chunk
  return [CHUNKED, Buffer.concat([...chunks, Buffer.from('0\r\nTrailer: x\r\n\r\n')]), true]
}

const brokenFrame = fc.oneof(
  fc.integer({ min: -20, max: 20 }).map(
    (by): Frame =>
      bytes => [`Content-Length: ${bytes.length + by}\r\n`, bytes, false],
  ),
  oneOf(`zz | -1 | 0x2 | 1 | ${'f'.repeat(17)} | 2;x=${'a'.repeat(17_000)} | 2;\xff`).map(
    (size): Frame =>
      body => [CHUNKED, Buffer.concat([Buffer.from(`${size}\r\n`), body]), false],
  ),
)

const HIDDEN_BODY = `{"user":{"name":"${FORBIDDEN}","email":"hidden@${DOMAIN}"}}`

const HIDDEN = `POST /users HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${HIDDEN_ID}\r\nContent-Type: application/json\r\nContent-Length: ${HIDDEN_BODY.length}\r\n\r\n${HIDDEN_BODY}`

/** Lines that contradict each other, or that only some servers treat as framing. */
const FRAMINGS = [
  ...listed(
    `3\r\nContent-Length: 4 | 3, 4 | +3 | -3 | 0x3 | 3 3 | \x0b3 | 3\xa0 | 3\0 | \r\n 3 | ${'9'.repeat(30)} | `,
  ).map(length => `Content-Length: ${length}`),
  ...listed(`chunked, identity | identity | xchunked | chunked;q=1 | gzip | "chunked" | \x0bchunked | chunked\0 | chun\r\n ked
chunked\r\nContent-Length: 3`).map(coding => `Transfer-Encoding: ${coding}`),
  ...['Content-Length: 3', 'Transfer-Encoding: chunked'].flatMap(line => [
    ...[' ', 'X: y\r\n ', 'X: y\n', 'X: y\r', 'X: \0', '\x0b'].map(start => start + line),
    ...[' :', '\0:', '\r\n:', '\xa0:'].map(colon => line.replace(':', colon)),
  ]),
]

/** The bytes after such a head. The hidden request begins where one of the interpretations ends the message. */
const AFTERWARDS = [
  ...['', 'abc', '0\r\n\r\n', '3\r\nabc\r\n0\r\n\r\n'].map(start => start + HIDDEN),
  `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`,
]

/** Chunks that end elsewhere for a server that accepts a bare CR or LF as a line end, or other text as a size. */
const CHUNKS = [
  ...['3\nabc\r\n0\r\n\r\n', '3;x\nabc\r\n0\r\n\r\n', '3\r\nabcXX0\r\n\r\n', '3\r\nabc\n0\r\n\r\n'],
  ...['0\n\n', '0\r\n\n', '0\r\r\n\r\n', '0\r\n X: y\r\n\r\n', '0\r\nX : y\r\n\r\n'],
  ...listed('0x3 | +3 | 3_ | 3,3 | 1\x000 | 3\t | \xb3').map(size => `${size}\r\nabc\r\n0\r\n\r\n`),
].map(chunks => chunks + HIDDEN)

const ambiguous = fc
  .tuple(
    oneOf('POST /users | PUT /users/1 | GET /livez | OPTIONS / | POST /x'),
    fc.constantFrom('', 'Connection: keep-alive\r\n', 'Expect: 100-continue\r\n'),
    fc.oneof(
      fc.tuple(fc.constantFrom(...FRAMINGS), fc.constantFrom(...AFTERWARDS)),
      fc.tuple(fc.constant(CHUNKED.trimEnd()), fc.constantFrom(...CHUNKS)),
    ),
  )
  .map(([line, more, [framing, afterwards]]) =>
    Buffer.from(`${line} HTTP/1.1\r\nHost: x\r\n${more}${framing}\r\n\r\n${afterwards}`, 'latin1'),
  )

/** Requests with every kind of nonsense. Most of them are valid except for one or two parts. */
export function oddRequests({ paths, tags }: OddOptions): fc.Arbitrary<OddRequest> {
  const query = fc
    .array(fc.tuple(oneOf(PARAMETERS), oneOf(VALUES)), { maxLength: 3 })
    .map(pairs => pairs.map(pair => pair.join('=')).join('&'))
  const almostRight = fc
    .record({
      method: oneOf(METHODS),
      path: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...PATHS, ...paths) }, fc.webPath()),
      query: mostly(fc.constant(''), query, query, query),
      version: mostly(
        fc.constant('HTTP/1.1'),
        oneOf('HTTP/1.0 | HTTP/0.9 | HTTP/2.0 | RTSP/1.0 | '),
      ),
      fields: fc.tuple(
        ...Object.entries(USUAL).map(([name, [value, ...odd]]) =>
          mostly(fc.constant(value), fc.constantFrom(...odd)).map(
            chosen => [name, chosen] as const,
          ),
        ),
      ),
      odd: fc.array(headerOf(tags), { maxLength: 2 }),
      content: encoded(userBody),
      frame: mostly<Frame>(fc.constant(byLength), fc.constant(inChunks), brokenFrame),
      flip: fc.option(fc.tuple(fc.nat(200), fc.constantFrom(0, 9, 10, 13, 32, 58, 127, 255)), {
        freq: 1,
      }),
      isFlipped: mostly(fc.constant(false), fc.constant(true)),
    })
    .map(parts => {
      const { method, path, query, version, fields, odd, content, frame, flip, isFlipped } = parts
      const { coding, bytes } = content
      const none = ['', Buffer.alloc(0), true] as const
      const [framing, framed, isWhole] = /^P[UOA]/.test(method) ? frame(bytes) : none
      const kept = fields.filter(([name]) => !odd.some(([other]) => other === name))
      const coded = coding === undefined ? [] : [['Content-Encoding', coding] as const]
      const lines = [...kept, ...coded, ...odd].map(([name, value]) => `${name}: ${value}\r\n`)
      const target = query === '' ? path : `${path}?${query}`
      const text = `${method} ${target} ${version}\r\n${lines.join('')}${framing}\r\n`
      const head = Buffer.from(text, 'latin1')
      const isBroken = isFlipped && flip !== null
      if (isBroken) head[flip[0] % head.length] = flip[1]
      return { bytes: Buffer.concat([head, framed]), isWhole: isWhole && !isBroken }
    })
  const doubtful = fc.oneof(
    { weight: 3, arbitrary: ambiguous },
    fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes)),
  )
  return fc
    .oneof(
      { weight: 3, arbitrary: almostRight },
      doubtful.map(bytes => ({ bytes, isWhole: false })),
    )
    .map(request => ({ ...request, [fc.toStringMethod]: () => shown(request.bytes).slice(0, 80) }))
}
