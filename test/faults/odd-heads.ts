import fc from 'fast-check'
import { DOMAIN } from './odd-bodies.ts'

/** Values of the running service that requests may use. */
export interface Known {
  readonly ids: readonly number[]
  /** Entity tags. */
  readonly versions: readonly string[]
  readonly cursor: string
}

/** Splits a text at ` | ` and at line ends. */
export const listed = (text: string): readonly string[] => text.split(/ \| ?|\n/)

const oneOf = (text: string) => fc.constantFrom(...listed(text))

/** Uses the first arbitrary in most cases. The others shrink to it. */
export const mostly = <T>(usual: fc.Arbitrary<T>, ...odd: readonly fc.Arbitrary<T>[]) =>
  fc.oneof({ withCrossShrink: true }, { weight: 15, arbitrary: usual }, ...odd)

export const version = mostly(
  fc.constant('HTTP/1.1'),
  oneOf(
    'HTTP/1.0 | HTTP/0.9 | HTTP/2.0 | HTTP/1.2 | HTTP/9.9 | http/1.1 | RTSP/1.0 | HTTP/11 | X | ',
  ),
)

const PATHS = [
  ...listed(`/users/0 | /users/01 | /users/-1 | /users/1.0 | /users/1e3 | /users/9007199254740993 | /users/%31 | /users/%zz
/users/% | /users/%ff | /users/%00 | /users/%F0%9F | /users/1/ | /users/ | //users | /USERS | /user | /users.json | /users/1/x
/users/..;/ | /%2e%2e/%2e%2e/etc/passwd | /../../etc/passwd | /__proto__ | /constructor | /users/__proto__ | /users/toString
/? | /# | /users#x | * | http://x/users | http://x | http://[/ | http://[::1]:80/users/1 | https://u:p@h/users | ftp://x/
http:///users | http:\\\\x\\users | HTTP:users | users | x:1 | // | /// | /\\ | /us\xe9rs | /users/\xff | /a b | /\0 | /\x7f
/livez/ | /readyz?x=% | /?% | /% | /openapi.json | /docs | /users/1;x=1 | /users/"<>\\^\`{|} | //[/users | /users/[::1] | `),
  ...[`/users/${'9'.repeat(5000)}`, `/${'a'.repeat(17_000)}`],
]

const PARAMETERS =
  listed(`per_page | page | after | sort | email | name | q | created_after | created_before | updated_after
updated_before | count | envelope | __proto__ | constructor | toString | PAGE | page[] | sort%00 | %zz | %C3%A9 | offset | `)

const VALUES =
  listed(`0 | 1 | 2 | 1000 | 1001 | -1 | 1.5 | 1e3 | 01 | 999999999999 | 99999999999999999999 | true | TRUE | false
id | -id | name | -email | -created_at | --id | id,name | updated_at | 2026-01-31T12:00:00Z | 2026-01-31T12:00Z | 2026-01-31
2026-02-30T12:00:00Z | 0000-01-01T00:00:00Z | 9999-12-31T23:59:59.9999999Z | 2026-01-31T12:00:00+14:00 | 2026-01-31T25:00Z
2026-01-31T12:00:00,5-99 | %2B275760-09-13T00:00:00Z | % | %zz | %ff | %00 | %F0%9F%98%80 | %ED%A0%80 | a%20b | +
e1@${DOMAIN} | E1%40${DOMAIN} | ${'x'.repeat(9000)} | `)

/** The parameters of a list, with a valid value. */
const RIGHT =
  listed(`per_page=2 | page=2 | sort=-name | email=E1@${DOMAIN} | name=ann | q=an+ex | created_after=2026-01-31T12:00:00Z
updated_before=2999-01-31T12:00:00%2B01:00 | count=true | envelope=true`)

/** Methods and targets, most of which exist. */
export function targets({ ids, cursor }: Known): fc.Arbitrary<readonly [string, string]> {
  const cursors = fc.oneof(
    fc.constantFrom(cursor, `${cursor}=`, `${cursor}A`, cursor.slice(1), cursor.slice(0, -1), 'A'),
    fc.uint8Array({ maxLength: 60 }).map(bytes => Buffer.from(bytes).toString('base64url')),
  )
  const oddParameter = fc
    .tuple(
      fc.constantFrom(...PARAMETERS),
      fc.oneof(fc.constantFrom(...VALUES), fc.webQueryParameters()),
    )
    .map(pair => pair.join('='))
  const parameter = fc.oneof(
    fc.constantFrom(...RIGHT),
    oddParameter,
    cursors.map(value => `after=${value}`),
  )
  const list = fc.array(parameter, { maxLength: 3 }).map(query => `/users?${query.join('&')}`)
  const user = fc.constantFrom(...ids).map(id => `/users/${id}`)
  const target = fc.oneof(oneOf('/ | /users | /livez | /readyz'), user, fc.constantFrom(...PATHS))
  return fc.oneof(
    { weight: 4, arbitrary: fc.tuple(oneOf('GET | HEAD'), list) },
    { weight: 2, arbitrary: fc.tuple(oneOf('GET | HEAD'), user) },
    { weight: 5, arbitrary: fc.constant(['POST', '/users'] as const) },
    { weight: 4, arbitrary: fc.tuple(oneOf('PUT | PATCH'), user) },
    fc.tuple(fc.constant('DELETE'), user),
    { weight: 2, arbitrary: fc.tuple(oneOf('GET | HEAD | POST | PUT | DELETE | OPTIONS'), target) },
    fc.tuple(
      oneOf('TRACE | CONNECT | QUERY | SOURCE | LOCK | PRI | get | G3T | FROB | \xdcn | \0 | '),
      target,
    ),
  )
}

const ACCEPT = `application/problem+json | application/problem+json, application/json;q=0.1 | */*;q=0 | , | application/json;q=0, */*
text/html | text/* | */json | garbage | application/json;q=2 | application/json;q=0 | a/b;c="\\" | ${'a/b,'.repeat(2000)} | `
const CONTENT_TYPE = `text/plain | json | application/JSON; Charset="UTF-8" | application/json;charset=latin1 | application/json;
application/json, application/json | application/problem+json | */* | application/x-www-form-urlencoded | application/json;x | `
const HOST = `a b | [ | [::1] | x: | x:99999999 | x/y | x@y | * | \xff | 127.0.0.1:80:80 | % | ${'a'.repeat(5000)} | `
const TAGS = `* | "1" | W/"1" | "" | " | 1 | "a","1" | *, "1" | , | "\xff" | \xff | ${'"'.repeat(5000)} | ${'W/'.repeat(5000)} | `
const KEYS = `key | "key" | "k\\"1" | a b | " | "" | \xff | k,2 | ${'a'.repeat(255)} | ${'a'.repeat(256)} | "${'a'.repeat(256)}" | `
const REQUEST_IDS = `sane | a b | <b> | \xff | %0d%0aX: y | a,b | ${'x'.repeat(128)} | ${'x'.repeat(129)} | `

const HEADERS: Readonly<Record<string, string>> = {
  Accept: ACCEPT,
  'Content-Type': CONTENT_TYPE,
  'Content-Encoding': 'gzip | deflate | br | identity | zstd | gzip, br | constructor | ',
  Host: HOST,
  'If-Match': TAGS,
  'If-None-Match': TAGS,
  'Idempotency-Key': KEYS,
  'X-Request-Id': REQUEST_IDS,
  Connection: 'close | keep-alive | Upgrade | close, keep-alive | Host | Content-Length | \xff | ',
  Upgrade: 'h2c | websocket | ',
  Expect: '100-continue | 100-Continue | 200-ok | ',
  Range: 'bytes=0-0 | bytes=-1 | users=1',
  Origin: 'https://example.com | https://evil.example | null | http://[ | ',
  'X-HTTP-Method-Override': 'DELETE',
  'X-Forwarded-For': `203.0.113.1 | ::1 | ${'x'.repeat(5000)}`,
  TE: 'trailers | chunked',
  Trailer: 'Content-Length',
  'User-Agent': ` | \xff | ${'x'.repeat(5000)}`,
  Cookie: 'a=b; '.repeat(500),
  Authorization: 'Basic Og== | Bearer \xff',
  constructor: 'x',
}

/** All bytes except those that end a line. */
const BYTES = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).filter(
  byte => !'\r\n'.includes(byte),
)

/** Names and values of headers; bytes are characters. */
export function headers({ versions }: Known): fc.Arbitrary<readonly [string, string]> {
  const names = fc.constantFrom(...Object.keys(HEADERS))
  return fc.oneof(
    {
      weight: 9,
      arbitrary: names.chain(name => fc.tuple(fc.constant(name), oneOf(HEADERS[name] ?? ''))),
    },
    fc.constant(['Connection', 'Upgrade\r\nUpgrade: h2c'] as const),
    {
      weight: 2,
      arbitrary: fc.tuple(fc.constant('Idempotency-Key'), oneOf('key | other')),
    },
    {
      weight: 3,
      arbitrary: fc.tuple(oneOf('If-Match | If-None-Match'), fc.constantFrom(...versions)),
    },
    fc.tuple(
      fc.oneof(names, oneOf('__proto__ | a b | x\xff | ')),
      fc.array(fc.constantFrom(...BYTES), { maxLength: 20 }).map(bytes => bytes.join('')),
    ),
  )
}
