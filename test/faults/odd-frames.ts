import fc from 'fast-check'
import { DOMAIN, FORBIDDEN } from './odd-bodies.ts'

/** The headers that say where a body ends, and the body in that framing. */
export interface Framed {
  readonly headers: string
  readonly bytes: Buffer
  /** Whether its end is unambiguous. */
  readonly isWhole: boolean
}

export type Frame = (body: Buffer) => Framed

export const byLength: Frame = bytes => ({
  headers: `Content-Length: ${bytes.length}\r\n`,
  bytes,
  isWhole: true,
})

const CHUNKED = 'Transfer-Encoding: chunked\r\n'

const CRLF = Buffer.from('\r\n')

/** Chunks with extensions and a trailer. */
export const inChunks: Frame = body => {
  const middle = body.length >> 1
  const chunks = [body.subarray(0, middle), body.subarray(middle)]
    .filter(chunk => chunk.length > 0)
    .flatMap(chunk => [Buffer.from(`${chunk.length.toString(16)};a="b"\r\n`), chunk, CRLF])
  const end = Buffer.from('0\r\nTrailer: x\r\n\r\n')
  return { headers: CHUNKED, bytes: Buffer.concat([...chunks, end]), isWhole: true }
}

const SIZES = ['zz', '-1', '', '0x2', '1', 'f'.repeat(17), `2;x=${'a'.repeat(17_000)}`, '2;\xff']

export const brokenFrame: fc.Arbitrary<Frame> = fc.oneof(
  fc.integer({ min: -20, max: 20 }).map(by => (bytes: Buffer) => ({
    headers: `Content-Length: ${bytes.length + by}\r\n`,
    bytes,
    isWhole: false,
  })),
  fc.constantFrom(...SIZES).map(size => (body: Buffer) => ({
    headers: CHUNKED,
    bytes: Buffer.concat([Buffer.from(`${size}\r\n`, 'latin1'), body, CRLF]),
    isWhole: false,
  })),
)

/** The X-Request-Id of a hidden request, which only some servers would see. It would create a user. */
export const HIDDEN_ID = 'hidden-request'

const HIDDEN_BODY = `{"user":{"name":"${FORBIDDEN}","email":"hidden@${DOMAIN}"}}`

const HIDDEN =
  `POST /users HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${HIDDEN_ID}\r\nContent-Type: application/json\r\n` +
  `Content-Length: ${HIDDEN_BODY.length}\r\n\r\n${HIDDEN_BODY}`

const members = (text: string) => text.split(' | ')

/** Lengths that contradict each other or are invalid, and lengths beside chunks. */
const LENGTHS = members(
  `3\r\nContent-Length: 4 | 3\r\nContent-Length: 3 | 3, 3 | 3, 4 | +3 | -3 | 0x3 | 3a | 3 3 | \x0b3 | 3\xa0 | 3\0 | \r\n 3 | 1\r\n 0` +
    ` | ${'9'.repeat(30)} | 3\r\nTransfer-Encoding: chunked | `,
).map(length => `Content-Length: ${length}`)

const CODINGS = members(
  'chunked, chunked | chunked, identity | identity | xchunked | chunkedx | chunked;q=1 | gzip | "chunked" | chunked, x | \x0bchunked' +
    ' | chunked\x0c | chunked\0 | \r\n chunked | chun\r\n ked | chunked\r\nTransfer-Encoding: x | chunked\r\nContent-Length: 3' +
    ' | chunked\r\ncontent-length: 0',
).map(coding => `Transfer-Encoding: ${coding}`)

/** Lines that only some servers treat as a framing header. */
const DISGUISES = ['Content-Length: 3', 'Transfer-Encoding: chunked'].flatMap(line => [
  ...[' ', '\t', 'X: y\r\n ', 'X: y\n', 'X: y\r', 'X: \0', 'X: y\r\r\n', '\x0b'].map(
    start => start + line,
  ),
  ...[' :', '\t:', '\0:', '\r\n:', '\xa0:'].map(colon => line.replace(':', colon)),
])

/** The bytes after such a head. The hidden request begins where one of the interpretations ends the message. */
const AFTERWARDS = [
  HIDDEN,
  `abc${HIDDEN}`,
  `0\r\n\r\n${HIDDEN}`,
  `3\r\nabc\r\n0\r\n\r\n${HIDDEN}`,
  `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`,
]

/** Chunks that end elsewhere for a server that accepts a bare CR or LF as a line end, or other text as a size. */
const CHUNKS = [
  ...members(
    '3\nabc\r\n0\r\n\r\n | 3;x\nabc\r\n0\r\n\r\n | 3;x=\ry\r\nabc\r\n0\r\n\r\n | 3\r\nabcXX0\r\n\r\n | 3\r\nabc0\r\n\r\n' +
      ' | 3\r\nabc\n0\r\n\r\n | 0\n\n | 0\r\n\n | 0\n\r\n | 0\r\r\n\r\n | 0\r\nX: y\nZ: z\r\n\r\n | 0\r\n X: y\r\n\r\n' +
      ' | 0\r\nX : y\r\n\r\n',
  ),
  ...[
    ...members(`0x3 | +3 | -3 | 3_ | 3,3 | ${'f'.repeat(16)}3 | 1\x000 | 3\t | \xb3 | `),
    ' 3',
    '3 ',
  ].map(size => `${size}\r\nabc\r\n0\r\n\r\n`),
].map(chunks => `${chunks}${HIDDEN}`)

/** Requests with several possible ends, and a hidden request behind one of them. */
export const ambiguous: fc.Arbitrary<string> = fc
  .record({
    line: fc.constantFrom(
      'POST /users',
      'PUT /users/1',
      'GET /livez',
      'DELETE /users/0',
      'OPTIONS /',
      'POST /x',
    ),
    more: fc.constantFrom('', 'Connection: keep-alive\r\n', 'Expect: 100-continue\r\n'),
    framing: fc.oneof(
      fc.tuple(
        fc.constantFrom(...LENGTHS, ...CODINGS, ...DISGUISES),
        fc.constantFrom(...AFTERWARDS),
      ),
      fc.tuple(fc.constant('Transfer-Encoding: chunked'), fc.constantFrom(...CHUNKS)),
    ),
  })
  .map(
    ({ line, more, framing: [header, afterwards] }) =>
      `${line} HTTP/1.1\r\nHost: x\r\n${more}${header}\r\n\r\n${afterwards}`,
  )
