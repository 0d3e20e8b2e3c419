import type { Socket } from 'node:net'
import type { Response } from 'express'
import { portsOf, readUnacknowledged, type Unacknowledged } from './unacknowledged.ts'

/** One open connection, and what its client is waiting for. */
export interface Connection {
  readonly socket: Socket
  /** The response that is being made or sent, or the last one. */
  current: Response | undefined
  /** The response to the newest request. */
  newest: Response | undefined
  /** Responses to requests that wait for earlier ones to be answered, in order. */
  readonly waiting: Response[]
  /** Whether reading has stopped until the waiting requests are answered. */
  isHeld: boolean
  /** Set while some bytes wait to be sent. */
  backlog: Backlog | undefined
}

/** Times by `performance.now()`. */
interface Backlog {
  /** How many bytes the system had accepted at the last check that saw progress. */
  readonly takenBytes: number
  readonly sinceMs: number
  /** How many bytes the client had not acknowledged at the last check, and when that number last changed. */
  unacknowledgedBytes?: number | undefined
  acknowledgedMs: number
}

/** The open connections of a server. */
export interface Connections {
  readonly size: number
  /** If there are too many, closes the oldest idle connection, or the new one if none is idle. */
  add(socket: Socket): void
  get(socket: Socket): Connection | undefined
  values(): Iterable<Connection>
}

export interface ConnectionsOptions {
  readonly maxConnections: number
  /** The longest time in which a client may accept nothing of its response. */
  readonly takeTimeoutMs: number
  /** How often that is checked. */
  readonly checkEveryMs: number
  /** Reads how many bytes clients have not acknowledged; `readUnacknowledged` if left out. */
  readonly unacknowledged?: () => Promise<Unacknowledged>
}

/** When more than this waits to be sent in all, clients have `HURRIED_TAKE_MS` instead of `takeTimeoutMs`. */
const MAX_BACKLOG_BYTES = 32 * 1024 * 1024

const HURRIED_TAKE_MS = 3000

/** How often acknowledged bytes are read within `takeTimeoutMs`. */
const LOOKS_AT_ACKNOWLEDGED = 10

/**
 * Keeps the open connections, and closes those whose clients do not read their responses. Node's own timeouts do not: they
 * cover the arrival of requests and idle connections.
 */
export function createConnections(options: ConnectionsOptions): Connections {
  const {
    maxConnections,
    takeTimeoutMs,
    checkEveryMs,
    unacknowledged = readUnacknowledged,
  } = options
  // Oldest first.
  const connections = new Map<Socket, Connection>()
  let timer: NodeJS.Timeout | undefined
  let lookedMs = 0

  function add(socket: Socket): void {
    if (connections.size >= maxConnections) {
      const idle = firstIdle() ?? socket
      idle.destroy()
      connections.delete(idle)
      if (idle === socket) return
    }
    connections.set(socket, {
      socket,
      current: undefined,
      newest: undefined,
      waiting: [],
      isHeld: false,
      backlog: undefined,
    })
    socket.once('close', () => connections.delete(socket))
    timer ??= setInterval(closeStalled, checkEveryMs).unref()
  }

  function firstIdle(): Socket | undefined {
    for (const { socket, newest } of connections.values()) {
      if (newest === undefined || (newest.req.complete && newest.writableFinished)) return socket
    }
    return undefined
  }

  function closeStalled(): void {
    const nowMs = performance.now()
    let backlogBytes = 0
    let isAnyStalled = false
    for (const { socket } of connections.values()) backlogBytes += socket.writableLength
    for (const connection of connections.values()) {
      const { socket, backlog } = connection
      const takenBytes = countTakenBytes(socket)
      if (socket.writableLength === 0) connection.backlog = undefined
      else if (backlog?.takenBytes !== takenBytes) {
        connection.backlog = { takenBytes, sinceMs: nowMs, acknowledgedMs: nowMs }
      } else if (isOverTime(backlog, nowMs, backlogBytes)) {
        backlogBytes -= socket.writableLength
        socket.destroy()
      } else isAnyStalled = true
    }
    if (isAnyStalled && nowMs - lookedMs >= takeTimeoutMs / LOOKS_AT_ACKNOWLEDGED) {
      lookedMs = nowMs
      void lookAtAcknowledged()
    }
    if (connections.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  /** Under `HURRIED_TAKE_MS` only bytes that leave this process count as progress, because its memory must shrink. */
  function isOverTime(backlog: Backlog, nowMs: number, backlogBytes: number): boolean {
    const isHurried = backlogBytes > MAX_BACKLOG_BYTES
    if (isHurried && nowMs - backlog.sinceMs >= HURRIED_TAKE_MS) return true
    return nowMs - Math.max(backlog.sinceMs, backlog.acknowledgedMs) >= takeTimeoutMs
  }

  /** The system accepts more only when about a megabyte of its buffer is free, which takes a slow client a while. */
  async function lookAtAcknowledged(): Promise<void> {
    const bytesByPorts = await unacknowledged()
    for (const { socket, backlog } of connections.values()) {
      if (backlog === undefined) continue
      const { unacknowledgedBytes: before } = backlog
      // The tables may lack an open connection while others come and go.
      const bytes = bytesByPorts.get(portsOf(socket)) ?? before
      if (before !== undefined && before !== bytes) backlog.acknowledgedMs = performance.now()
      backlog.unacknowledgedBytes = bytes
    }
  }

  return {
    get size() {
      return connections.size
    },
    add,
    get: socket => connections.get(socket),
    values: () => connections.values(),
  }
}

/**
 * How many bytes the system has accepted. It grows within one write too: `writeQueueSize`, which Node's own socket
 * timeouts use as well, is the only count that changes before a write is finished.
 */
function countTakenBytes(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { _handle?: { writeQueueSize?: number } | null }
  return socket.bytesWritten - socket.writableLength - (handle?.writeQueueSize ?? 0)
}
