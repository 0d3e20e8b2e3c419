import { connect, type Socket } from 'node:net'

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
  const watchers = new Set<() => void>()
  const notify = () => {
    for (const watcher of watchers) watcher()
  }
  socket.on('data', chunk => {
    chunks.push(chunk)
    notify()
  })
  socket.on('error', () => {})
  socket.write(bytes)
  const ended = new Promise<readonly RawAnswer[]>(resolve => {
    socket.once('close', () => {
      resolve(parseAnswers(received()))
      notify()
    })
  })
  function answers(count: number): Promise<readonly RawAnswer[]> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const complete = parseAnswers(received())
        if (complete.length >= count) resolve(complete)
        else if (socket.destroyed) reject(new Error(`closed after ${complete.length} answers`))
      }
      watchers.add(check)
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
