import { connect, type Socket } from 'node:net'
import { newUserBody } from './builders.ts'

export interface RawAnswer {
  readonly status: number
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface RawExchange {
  readonly socket: Socket
  /** All bytes that the server sent until it closed the connection. */
  readonly ended: Promise<readonly RawAnswer[]>
  /** The same bytes as they came, a character for each. */
  readonly text: Promise<string>
  /** Resolves once this many responses are complete. */
  answers(count: number): Promise<readonly RawAnswer[]>
}

/** A connection that sends exactly these bytes, for requests that HTTP clients would correct. */
export function sendRaw(port: number, bytes: string | Buffer): RawExchange {
  const socket = connect(port, '127.0.0.1')
  const chunks: Buffer[] = []
  const received = () => Buffer.concat(chunks)
  // Beside this one, each call of `answers` listens.
  socket.setMaxListeners(0).on('data', chunk => chunks.push(chunk))
  socket.on('error', () => {})
  socket.write(bytes)
  const ended = new Promise<readonly RawAnswer[]>(resolve => {
    socket.once('close', () => resolve(parseAnswers(received())))
  })
  function answers(count: number): Promise<readonly RawAnswer[]> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const complete = parseAnswers(received())
        if (complete.length >= count) resolve(complete)
        else if (socket.destroyed) reject(new Error(`closed after ${complete.length} answers`))
      }
      socket.on('data', check).on('close', check)
      check()
    })
  }
  const text = ended.then(() => received().toString('latin1'))
  return { socket, ended, text, answers }
}

/** Splits responses that have a Content-Length or no body, as all responses of this service. Those to HEAD have both. */
export function parseAnswers(bytes: Buffer, isHead = false): RawAnswer[] {
  const answers: RawAnswer[] = []
  let rest = bytes.toString('latin1')
  for (;;) {
    const headEnd = rest.indexOf('\r\n\r\n')
    if (headEnd < 0) return answers
    const [statusLine = '', ...lines] = rest.slice(0, headEnd).split('\r\n')
    const headers = Object.fromEntries(
      lines.map(line => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
      }),
    )
    const bodyEnd = headEnd + 4 + (isHead ? 0 : Number(headers['content-length'] ?? 0))
    if (rest.length < bodyEnd) return answers
    const body = Buffer.from(rest.slice(headEnd + 4, bodyEnd), 'latin1').toString()
    answers.push({ status: Number(statusLine.split(' ')[1]), headers, body })
    rest = rest.slice(bodyEnd)
  }
}

/** Headers by name. Several texts of a name are sent in lines of their own; characters are bytes. */
export type RawHeaders = Readonly<Record<string, string | readonly string[]>>

export const AS_JSON = { 'Content-Type': 'application/json' }

export const CHUNKED = { ...AS_JSON, 'Transfer-Encoding': 'chunked' }

export const CLOSING = { Connection: 'close' }

/** The bytes of a request, with a Host and the length of its body unless the headers say otherwise. */
export function requestBytes(
  line: string,
  headers: RawHeaders = {},
  body: string | Buffer = '',
): Buffer {
  const content = Buffer.from(body as string)
  const isFramed = 'Transfer-Encoding' in headers || 'Content-Length' in headers
  const all: RawHeaders = {
    Host: 'localhost',
    ...(content.length > 0 && !isFramed && { 'Content-Length': String(content.length) }),
    ...headers,
  }
  const lines = Object.entries(all).flatMap(([name, texts]) =>
    [texts].flat().map(text => `${name}: ${text}\r\n`),
  )
  return Buffer.concat([
    Buffer.from(`${line} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'),
    content,
  ])
}

/**
 * The answer to one request. The client closes the connection: if the server did, the unread rest of a long body could
 * destroy the answer.
 */
export async function askRaw(
  port: number,
  line: string,
  headers?: RawHeaders,
  body?: string | Buffer,
): Promise<RawAnswer> {
  const exchange = sendRaw(port, requestBytes(line, headers, body))
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  return answer as RawAnswer
}

/** The answer to one request, once the service has closed the connection and so written the line of the request. */
export async function askAndClose(
  port: number,
  line: string,
  headers: RawHeaders = {},
  body?: string | Buffer,
): Promise<RawAnswer> {
  const { text } = sendRaw(port, requestBytes(line, { ...CLOSING, ...headers }, body))
  const [answer] = parseAnswers(Buffer.from(await text, 'latin1'), line.startsWith('HEAD '))
  if (answer === undefined) throw new Error('no answer')
  return answer
}

/** A body in the transfer coding `chunked`. */
export function inChunks(body: string | Buffer, chunkBytes: number): Buffer {
  const bytes = Buffer.from(body as string)
  const parts: Buffer[] = []
  for (let start = 0; start < bytes.length; start += chunkBytes) {
    const chunk = bytes.subarray(start, start + chunkBytes)
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'))
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
}

/**
 * Sends the head of a create, and resolves once the service has it. The first answer is `100 Continue`; `finish` sends the body.
 */
export async function beginPost(port: number, headers: RawHeaders = {}) {
  const body = JSON.stringify(newUserBody())
  const waiting = { 'Content-Length': `${body.length}`, Expect: '100-continue' }
  const bytes = requestBytes('POST /users', { ...AS_JSON, ...waiting, ...headers })
  const exchange = sendRaw(port, bytes)
  const [answer] = await exchange.answers(1)
  if (answer?.status !== 100) throw new Error(`${answer?.status} instead of 100`)
  return { ...exchange, finish: () => exchange.socket.write(body) }
}
