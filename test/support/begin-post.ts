import { newUserBody } from './builders.ts'
import { type RawAnswer, sendRaw } from './raw-http.ts'

export interface BegunPost {
  /** Sends the body. */
  finish(): void
  /** `100 Continue`, and the answer if there was one. */
  readonly ended: Promise<readonly RawAnswer[]>
}

/** Sends the head of a create, and resolves once the service has it. */
export async function beginPost(port: number): Promise<BegunPost> {
  const body = JSON.stringify(newUserBody())
  const head = [
    'POST /users HTTP/1.1',
    'Host: localhost',
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    'Expect: 100-continue',
  ]
  const { socket, answers, ended } = sendRaw(port, `${head.join('\r\n')}\r\n\r\n`)
  const [answer] = await answers(1)
  if (answer?.status !== 100) throw new Error(`${answer?.status} instead of 100`)
  return { finish: () => socket.write(body), ended }
}
