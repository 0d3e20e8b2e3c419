import type { Socket } from 'node:net'
import type { Response } from 'express'

/** What is known of one connection. */
export interface Connection {
  readonly socket: Socket
  /** In which turn of a stop it was made; 0 before a stop. */
  readonly stopTurn: number
  /** The answer that is being made or sent, or was last. */
  current: Response | undefined
  /** To the newest request that arrived. */
  newest: Response | undefined
  /** Answers to requests that arrived before those in front of them were answered. */
  readonly waiting: Response[]
  /** Whether nothing more is read from it until those that wait are answered. */
  isHeld: boolean
  /** What the client had taken when it last took something, and when that was, while there is more for it to take. */
  backlog: { readonly takenBytes: number; readonly sinceMs: number } | undefined
}

/** The open connections of a server. */
export interface Connections {
  readonly size: number
  /** Where there are too many, one that is idle makes room, or else the new one is closed. */
  add(socket: Socket, stopTurn: number): void
  get(socket: Socket): Connection | undefined
  values(): Iterable<Connection>
}

export interface ConnectionsOptions {
  readonly maxConnections: number
  /** How long an answer may lie there before its client takes it. */
  readonly takeTimeoutMs: number
  /** How often that is looked at. */
  readonly checkEveryMs: number
}

/** So much may lie there in all before those who take nothing have less time. */
const MAX_BACKLOG_BYTES = 32 * 1024 * 1024

const HURRIED_TAKE_MS = 3000

/**
 * Keeps account of connections, and closes those whose clients do not take their answers. Node's own timeouts do not:
 * they watch requests that arrive, and connections on which nothing is going on.
 */
export function createConnections(options: ConnectionsOptions): Connections {
  const { maxConnections, takeTimeoutMs, checkEveryMs } = options
  // In the order in which they were made.
  const connections = new Map<Socket, Connection>()
  let timer: NodeJS.Timeout | undefined

  function add(socket: Socket, stopTurn: number): void {
    if (connections.size >= maxConnections) {
      const idle = firstIdle() ?? socket
      idle.destroy()
      connections.delete(idle)
      if (idle === socket) return
    }
    connections.set(socket, {
      socket,
      stopTurn,
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
    for (const { socket } of connections.values()) backlogBytes += socket.writableLength
    for (const connection of connections.values()) {
      const { socket, backlog } = connection
      const takenBytes = socket.bytesWritten - socket.writableLength
      const isHurried = backlogBytes > MAX_BACKLOG_BYTES
      const patienceMs = isHurried ? Math.min(takeTimeoutMs, HURRIED_TAKE_MS) : takeTimeoutMs
      if (socket.writableLength === 0) connection.backlog = undefined
      else if (backlog?.takenBytes !== takenBytes)
        connection.backlog = { takenBytes, sinceMs: nowMs }
      else if (nowMs - backlog.sinceMs >= patienceMs) {
        backlogBytes -= socket.writableLength
        socket.destroy()
      }
    }
    if (connections.size > 0) return
    clearInterval(timer)
    timer = undefined
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
