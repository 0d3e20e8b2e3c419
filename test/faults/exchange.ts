import { connect } from 'node:net'
import { expect } from 'vitest'
import { readAnswers } from '../support/contract-shape.ts'
import type { SpawnedService } from '../support/spawn-service.ts'
import { type OddRequest, shown } from './odd-requests.ts'

/** Far longer than any answer takes on a busy machine. */
const HANG_MS = 20_000

/** The X-Request-Id of a request that comes behind each of them, and with which nothing is wrong. */
export const SANE_ID = 'sane-request'

const SANE = Buffer.from(
  `GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${SANE_ID}\r\nConnection: close\r\n\r\n`,
)

/**
 * What comes back for each request, on a connection of its own. Throws where one is not closed in time, of which
 * `onHang` hears before, and where the service ends.
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
      // The others wait for the client to end its side, which it does when these are done.
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
  // Of an incomplete request the service learns by the end of what the client sends. That end comes when the service
  // has read the rest, which is before it answers anyone who comes later.
  const [alive] = readAnswers(await open(port, { bytes: NO_BYTES, isReset: false }).ended)
  expect(alive?.status).toBe(200)
  for (const { socket } of connections) socket.end()
  return Promise.all(connections.map(({ ended }) => ended))
}

const NO_BYTES = Buffer.alloc(0)

/** A connection that sends a request, and then one that nothing is wrong with. */
function open(port: number, { bytes, isReset }: Pick<OddRequest, 'bytes' | 'isReset'>) {
  const socket = connect({ port, host: '127.0.0.1' })
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  // A server that closes while more is sent resets the connection; what it said before is there all the same.
  socket.on('error', () => {})
  const ended = new Promise<Buffer>(resolve => {
    socket.once('close', () => resolve(isReset ? NO_BYTES : Buffer.concat(chunks)))
  })
  socket.write(Buffer.concat([bytes, SANE]), () => isReset && socket.resetAndDestroy())
  return { socket, ended }
}
