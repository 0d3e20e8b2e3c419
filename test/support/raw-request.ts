import { parseAnswers, type RawAnswer, sendRaw } from './raw-http.ts'

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
