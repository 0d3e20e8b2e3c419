import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'

/** A body and its Content-Encoding header. */
export interface OddBody {
  readonly bytes: Buffer
  readonly coding: string | undefined
}

/** Part of every password. */
export const SECRET = 'hunter2-never-shown'

/** Part of every e-mail address. */
export const DOMAIN = 'nonsense.example'

/** Levels of nesting that fit into the largest allowed body. */
const DEEP = 50_000

const TEXTS = [
  ...['', ' ', ' x ', 'a'.repeat(255), 'a'.repeat(256), '😀'.repeat(255), '😀'.repeat(256)],
  // In NFC the first is one character, and each of the others is two or more.
  ...['e\u0301', '\u0958'.repeat(255), '\u0344', '\ufb2c'.repeat(128)],
  ...['\0', 'a\0b', 'a\u0085b', '\u202e', '\u2066', '\ud800', 'a\udc00', '\ufeff', '\u00a0a\u3000'],
  ...["'; DROP TABLE users --", '%s%n', '../../etc/passwd', '<script>', '\u0130', 'ΑΣ', '\ufffd'],
]

const WORDS = `0 -0 1e400 -1e400 1e-400 0.1 12345678901234567890123 9007199254740993 1E9
[] {} [[]] true {"toString":1} {"__proto__":0}`.split(/\s/)

/** JSON text of a field that JSON.stringify alone cannot write. */
const oddValue = fc.oneof(
  fc.constantFrom(...TEXTS).map(text => JSON.stringify(text)),
  fc.constantFrom(...WORDS),
  fc.string({ unit: 'binary', maxLength: 20 }).map(text => JSON.stringify(text)),
  fc.json({ maxDepth: 3 }),
)

const ODD_EMAILS = [
  ...[' E1@', 'a@b@', 'a\0@', 'é@', '@', `${'a.'.repeat(9000)}@`].map(start => start + DOMAIN),
  `${'a'.repeat(64)}@${'b'.repeat(189)}.io`,
].map(text => JSON.stringify(text))

const email = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 300 }).map(n => `"e${n}@${DOMAIN}"`) },
  fc.constantFrom(...ODD_EMAILS),
)

// Few valid ones, because each of them is hashed with Argon2.
const password = fc.oneof(
  { weight: 40, arbitrary: fc.constantFrom('null', undefined) },
  { weight: 2, arbitrary: fc.constantFrom(...TEXTS).map(odd => JSON.stringify(`${SECRET}${odd}`)) },
  fc.constantFrom(`["${SECRET}"]`, `{"${SECRET}":1}`, '"short"', '1e400', 'false'),
)

const ATTRIBUTES = ['__proto__', 'constructor', 'id', 'toString', 'created_at', 'name', 'email', '']

/** The JSON text of `{"user": {…}}` with one or two odd parts. */
const userBody = fc
  .record({
    name: fc.oneof({ weight: 4, arbitrary: fc.constant('"Ann"') }, oddValue),
    email: fc.oneof({ weight: 6, arbitrary: email }, oddValue),
    password,
    more: fc.option(fc.tuple(fc.constantFrom(...ATTRIBUTES), oddValue), { freq: 3 }),
    wrapper: fc.oneof(
      { weight: 9, arbitrary: fc.constant('user') },
      fc.constantFrom(...ATTRIBUTES),
    ),
  })
  .map(({ more, wrapper, ...fields }) => {
    const pairs = [...Object.entries(fields), ...(more === null ? [] : [more])]
    const members = pairs
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => `"${key}":${value}`)
    return `{"${wrapper}":{${members.join(',')}}}`
  })

const WHOLES = `null [] {} "user" 0 {"user":null} {"user":[]} {"user":"x"} \ufeff{} {"user":{"user":{}}} {"user":{}}x {"user":{}
{"user":NaN} {'user':{}} {"user":{},} {"user":{},"user":{}} {"__proto__":{"user":{}}} {"constructor":{"prototype":{}}}`

const ODD_TEXTS = [
  ...['', ...WHOLES.split(/[ \n]/)],
  '['.repeat(DEEP) + ']'.repeat(DEEP),
  `{"user":{"name":${'['.repeat(DEEP)}${']'.repeat(DEEP)}}}`,
  `{"user":{"name":"Kim","email":"deep@${DOMAIN}"},"deep":${'['.repeat(DEEP)}${']'.repeat(DEEP)}}`,
  `${'{"user":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
  '1'.repeat(100_000),
  `{"user":{"name":"${'a'.repeat(100_000)}"}}`,
  `{"user":{"password":"${SECRET.repeat(5000)}"}}`,
  'x'.repeat(200_000),
]

/** Always the same body, for idempotency keys, which promise that. */
const KIM = `{"user":{"name":"Kim","email":"kim@${DOMAIN}"}}`

/** Text as bytes, mostly as UTF-8. */
const ENCODERS: readonly ((text: string) => Buffer)[] = [
  text => Buffer.from(text),
  text => Buffer.from(text, 'latin1'),
  text => Buffer.from(text, 'utf16le'),
  text => Buffer.from(`\ufeff${text}`, 'utf16le').swap16(),
  text => Buffer.from(text.replace('Ann', '\xc3('), 'latin1'),
  text => Buffer.from(text.replace('Ann', '\xed\xa0\x80'), 'latin1'),
  text => Buffer.from(text).subarray(0, -2),
]

const plain = fc
  .tuple(
    fc.oneof(
      { weight: 12, arbitrary: userBody },
      { weight: 2, arbitrary: fc.constant(KIM) },
      { weight: 2, arbitrary: fc.constantFrom(...ODD_TEXTS) },
      fc.json({ maxDepth: 4 }),
    ),
    fc.oneof({ weight: 9, arbitrary: fc.constant(ENCODERS[0]) }, fc.constantFrom(...ENCODERS)),
  )
  .map(([text, encode]) => encode?.(text) ?? Buffer.from(text))

type Coder = (bytes: Buffer) => Buffer

/** Not the smallest possible size, because that takes seconds. */
const brotli: Coder = bytes =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })

const CODERS: readonly (readonly [coding: string, code: Coder])[] = [
  ['gzip', gzipSync],
  ['X-GZip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotli],
  ['identity', bytes => bytes],
  ['gzip', bytes => gzipSync(bytes).subarray(0, -5)],
  ['deflate', bytes => deflateSync(bytes).subarray(0, -5)],
  ['br', bytes => brotli(bytes).subarray(0, -1)],
  ['gzip', bytes => Buffer.concat([gzipSync(bytes), gzipSync(bytes)])],
  ['gzip', bytes => Buffer.concat([gzipSync(bytes), bytes])],
  ['gzip', bytes => gzipSync(gzipSync(bytes))],
  ['gzip, gzip', bytes => gzipSync(gzipSync(bytes))],
  ['gzip', bytes => bytes],
  ['deflate', deflateRawSync],
  ['br', gzipSync],
  ['', bytes => bytes],
  ['zstd', bytes => bytes],
  ['gzip;q=1', gzipSync],
]

/** The name of users that must never exist. */
export const FORBIDDEN = 'Forbidden'

const TOO_LARGE = Buffer.alloc(20_000_000, ' ')
TOO_LARGE.write(`{"user":{"name":"${FORBIDDEN}","email":"too.large@${DOMAIN}"}}`)

/** Some kB that decompress to 20 MB and would create a user. */
const BOMBS: readonly OddBody[] = [
  { coding: 'gzip', bytes: gzipSync(TOO_LARGE) },
  { coding: 'deflate', bytes: deflateSync(TOO_LARGE) },
  { coding: 'br', bytes: brotli(TOO_LARGE) },
  // Too long by more than a broken frame may cut off.
  { coding: undefined, bytes: TOO_LARGE.subarray(0, 102_500) },
]

export const oddBody: fc.Arbitrary<OddBody> = fc.oneof(
  { weight: 20, arbitrary: plain.map(bytes => ({ bytes, coding: undefined })) },
  {
    weight: 5,
    arbitrary: fc
      .tuple(fc.constantFrom(...CODERS), plain)
      .map(([[coding, code], bytes]) => ({ coding, bytes: code(bytes) })),
  },
  fc.constantFrom(...BOMBS),
)
