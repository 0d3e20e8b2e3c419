import fc from 'fast-check'
import { type OddBody, oddBody } from './odd-bodies.ts'
import { ambiguous, brokenFrame, byLength, type Frame, inChunks } from './odd-frames.ts'
import { headers, type Known, listed, mostly, targets, version } from './odd-heads.ts'

/** One request, or something similar to a request. */
export interface OddRequest {
  readonly bytes: Buffer
  /** Whether its end is unambiguous. It must then get exactly one response. */
  readonly isWhole: boolean
  /** Whether its client resets the connection instead of waiting for a response. */
  readonly isReset: boolean
}

/** Requests with every kind of nonsense. Most of them are valid except for one or two parts. */
export function oddRequests(known: Known): fc.Arbitrary<OddRequest> {
  const request = fc.oneof(
    { weight: 12, arbitrary: almostRight(known) },
    { weight: 3, arbitrary: ambiguous.map(doubtful) },
    { weight: 1, arbitrary: tokenSoup.map(doubtful) },
    {
      weight: 1,
      arbitrary: fc.uint8Array({ maxLength: 200 }).map(bytes => doubtful(Buffer.from(bytes))),
    },
  )
  return fc
    .tuple(request, mostly(fc.constant(false), fc.constant(true)))
    .map(([{ bytes, isWhole }, isReset]) => ({
      bytes,
      isWhole: isWhole && !isReset,
      isReset,
      [fc.toStringMethod]: () => shown(bytes) + (isReset ? ' and a reset' : ''),
    }))
}

/** Bytes as text. The middle of a long one is left out. */
export function shown(bytes: Buffer): string {
  const text = JSON.stringify(bytes.toString('latin1'))
  return text.length < 4000 ? text : `${text.slice(0, 2000)} … ${text.slice(-2000)}`
}

type Sent = Pick<OddRequest, 'bytes' | 'isWhole'>

const doubtful = (bytes: string | Buffer): Sent => ({
  bytes: typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes,
  isWhole: false,
})

function almostRight(known: Known): fc.Arbitrary<Sent> {
  return fc
    .record({
      methodAndTarget: targets(known),
      version,
      odd: fc.array(headers(known), { maxLength: 2 }),
      body: oddBody,
      isStray: mostly(fc.constant(false), fc.constant(true)),
      frame: mostly<Frame>(fc.constant(byLength), fc.constant(inChunks), brokenFrame),
      flips: mostly<readonly Flip[]>(
        fc.constant([]),
        fc.array(flip, { minLength: 1, maxLength: 2 }),
      ),
    })
    .map(({ methodAndTarget: [method, target], version, odd, body, isStray, frame, flips }) => {
      const hasBody = /^P[UOA]/.test(method) || isStray
      const framed = hasBody ? frame(body.bytes) : NOTHING
      const usual = Object.entries({ Host: 'localhost', ...(hasBody && typesOf(body)) })
      const lines = [...usual.filter(([name]) => !odd.some(([other]) => other === name)), ...odd]
      const fields = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
      const head = `${method} ${target} ${version}\r\n${fields}${framed.headers}\r\n`
      return {
        bytes: Buffer.concat([flipped(head, flips), framed.bytes]),
        isWhole: framed.isWhole && flips.length === 0,
      }
    })
}

const NOTHING = { headers: '', bytes: Buffer.alloc(0), isWhole: true }

function typesOf({ coding }: OddBody): Record<string, string> {
  const type = { 'Content-Type': 'application/json' }
  return coding === undefined ? type : { ...type, 'Content-Encoding': coding }
}

interface Flip {
  /** The position in the head, from 0 to below 1. */
  readonly at: number
  readonly byte: number
}

const flip = fc.record({
  at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  byte: fc.oneof(fc.constantFrom(0, 9, 10, 13, 32, 58, 127, 255), fc.nat(255)),
})

function flipped(head: string, flips: readonly Flip[]): Buffer {
  const bytes = Buffer.from(head, 'latin1')
  for (const { at, byte } of flips) bytes[Math.floor(at * bytes.length)] = byte
  return bytes
}

const TOKENS = [
  ...listed(`GET  | POST  | HEAD  | /users | /livez |  HTTP/1.1 |  HTTP/1.0 | Host: x | Content-Length: 2 | Content-Length: 0
Transfer-Encoding: chunked | Expect: 100-continue | Connection: Upgrade | Upgrade: h2c | Content-Type: application/json | {}
2 | 0 | : | \0 | \t | x | CONNECT x:1 HTTP/1.1`),
  ...[
    ' ',
    '\r\n',
    '\r\n',
    '\r\n\r\n',
    '\n',
    '\r',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    '\x16\x03\x01\x02\0\x01\0',
  ],
  'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n',
]

const tokenSoup = fc
  .array(fc.constantFrom(...TOKENS), { maxLength: 15 })
  .map(tokens => tokens.join(''))
