import { connect } from 'node:net'
import { expect } from 'vitest'
import { readAnswers } from '../support/contract-shape.ts'
import type { SpawnedService } from '../support/spawn-service.ts'
import { type OddRequest, shown } from './odd-requests.ts'

/** Far longer than any response takes on a busy machine. */
const HANG_MS = 100_000

/** The X-Request-Id of the valid request that follows each of them. */
export const SANE_ID = 'sane-request'

const SANE = Buffer.from(
  `GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${SANE_ID}\r\nConnection: close\r\n\r\n`,
)

/**
 * The responses to each request, on its own connection. Throws if a connection is not closed in time, after a call of
 * `onHang`, and if the service ends.
 */
export async function exchange({
  service,
  requests,
  onHang,
}: {
  service: SpawnedService
  requests: readonly OddRequest[]
  onHang: () => void
}): Promise<readonly Buffer[]> {
  const connections = requests.map(request => ({ request, ...open(service.port, request) }))
  let stopWatching = () => {}
  const failure = new Promise<never>((_, reject) => {
    const tellExit = () => reject(new Error(`the service ended: ${service.stdout().slice(-2000)}`))
    const tellHang = () => {
      onHang()
      const open = connections.filter(({ socket }) => !socket.closed)
      // The other requests wait until the client ends its side, which it does after these.
      const whole = open.filter(({ request }) => request.isWhole)
      const left = (whole.length > 0 ? whole : open).map(({ request }) => shown(request.bytes))
      reject(new Error(`left waiting: ${left.join('\n')}`))
    }
    const watchdog = setTimeout(tellHang, HANG_MS)
    service.process.once('exit', tellExit)
    stopWatching = () => {
      clearTimeout(watchdog)
      service.process.off('exit', tellExit)
    }
  })
  try {
    return await Promise.race([allEnded(service.port, connections), failure])
  } finally {
    stopWatching()
    for (const { socket } of connections) socket.destroy()
  }
}

type Connection = ReturnType<typeof open> & { readonly request: OddRequest }

async function allEnded(port: number, connections: readonly Connection[]): Promise<Buffer[]> {
  await Promise.all(connections.map(({ request, ended }) => request.isWhole && ended))
  // The service sees that a request is incomplete when the client ends its side. The client does that once the service
  // has read the rest, which it has before it answers any later client.
  const [alive] = readAnswers(await open(port, { bytes: NO_BYTES, isReset: false }).ended)
  expect(alive?.status).toBe(200)
  for (const { socket } of connections) socket.end()
  return Promise.all(connections.map(({ ended }) => ended))
}

const NO_BYTES = Buffer.alloc(0)

/** A connection that sends a request, and then a valid one. */
function open(port: number, { bytes, isReset }: Pick<OddRequest, 'bytes' | 'isReset'>) {
  const socket = connect({ port, host: '127.0.0.1' })
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  // A server that closes while a client still sends resets the connection. Its response before that counts.
  socket.on('error', () => {})
  const ended = new Promise<Buffer>(resolve => {
    socket.once('close', () => resolve(isReset ? NO_BYTES : Buffer.concat(chunks)))
  })
  socket.write(Buffer.concat([bytes, SANE]), () => isReset && socket.resetAndDestroy())
  return { socket, ended }
}
