import { newUserBody } from './builders.ts'
import { sendRaw } from './raw-http.ts'
import { AS_JSON, type RawHeaders, requestBytes } from './raw-request.ts'

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
