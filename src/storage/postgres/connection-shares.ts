import pg, { type PoolClient } from 'pg'
import { ServiceError } from '../../errors.ts'
import { NoAnswer } from '../../platform/patience.ts'
import { performance } from '../../platform/timers.ts'
import { HostClient } from './host-client.ts'
import { createHosts, type HostsOptions } from './hosts.ts'
import type { Share } from './postgres-connections.ts'
import { explainRefusal, unavailable } from './postgres-errors.ts'

/** The most connections for each kind of work: together as many as a process opens. */
const SHARES: Readonly<Record<Share, number>> = { short: 4, list: 4, write: 4, long: 3 }

const MOST = Object.values(SHARES).reduce((sum, size) => sum + size)

/** Then an idle connection is closed: other processes may need it, and the server may sleep. */
const IDLE_CONNECTION_MS = 10_000

/** From a connection that could not be opened beside others to the next attempt. */
const SHORTAGE_MS = 5000

/**
 * In a shortage others wait for connections: an idle one is closed sooner, but not one by which bans and keys are polled, and
 * under load a pooler gets one back in each turn.
 */
const SHORT_IDLE_MS = 2000
const TURN_MS = 250

/** A client of the pool, while that has lent it to this module. */
type PooledClient = HostClient & Pick<PoolClient, 'release'>

/** What needs a connection, perhaps several times. */
export interface Call {
  readonly share: Share
  /** The connection that it has now. */
  client?: PooledClient | undefined
  /** Since when it has it. */
  sinceMs?: number
}

interface Waiter {
  readonly call: Call
  readonly resolve: (client: HostClient) => void
  readonly reject: (error: unknown) => void
}

/**
 * One pool, in which each kind of work has a share that it may not exceed. A connection that is free goes to whoever waits for
 * one: no call waits for a certain connection to be opened. If the server gives fewer connections, the shares shrink.
 */
export function createConnectionShares(options: HostsOptions) {
  const { onWarning = () => {} } = options
  const hosts = createHosts(options, (reason, isAway) => {
    for (const client of open) client.destroy(reason)
    if (isAway) rejectAll(reason)
  })
  const open = new Set<PooledClient>()
  /** The calls that have a connection. */
  const running = new Set<Call>()
  let waiters: Waiter[] = []
  /** For how many connections the pool was asked that it has not given yet. */
  let asked = 0
  /**
   * While the server gives too few: how many were open when another one could not be, when that is tried again, and when the
   * next of them goes to others.
   */
  let short: { open: number; retryAt: number; turnAt: number } | undefined
  let closed: Promise<void> | undefined

  const pool = new pg.Pool({
    Client: class extends HostClient {
      constructor() {
        super(hosts.current(), hosts.openMs)
      }
    },
    onConnect: client => (client as unknown as HostClient).prepare(),
    max: MOST,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
  })
  pool.on('remove', client => open.delete(client as unknown as PooledClient))
  // The pool drops an idle connection that breaks. It leaves the client in the error, with its password.
  pool.on('error', error => Object.assign(error, { client: undefined }))

  /** How many connections there may be now. */
  function most(): number {
    return short !== undefined && performance.now() < short.retryAt ? short.open : MOST
  }

  /** How many more connections each kind of work may have. */
  function countRoom(): Record<Share, number> {
    const room = { ...SHARES }
    for (const share of Object.keys(room) as Share[])
      room[share] = Math.max(1, Math.floor((SHARES[share] * most()) / MOST))
    for (const { share } of running) room[share]--
    return room
  }

  /** Asks the pool for as many connections as can be used now, and as it can give: idle ones, and others that it opens. */
  function serve(): void {
    if (waiters.length === 0 || closed !== undefined) return
    const room = countRoom()
    const usable = waiters.filter(({ call }) => room[call.share]-- > 0).length
    const idle = pool.idleCount - pool.waitingCount
    // What it was asked for before may be opened slowly.
    const wanted = Math.max(usable - asked, Math.min(usable, idle))
    for (let left = Math.min(wanted, idle + most() - pool.totalCount); left > 0; left--) {
      asked++
      pool.connect((error, client) => {
        asked--
        if (client !== undefined) take(client as unknown as PooledClient)
        else noteFailure(explainRefusal(error, hosts.current()))
        serve()
      })
    }
  }

  /** Whether others get a connection that was used. A pooler keeps a queue, in which this process goes to the end. */
  function isTheirTurn({ isPooled }: HostClient): boolean {
    const now = performance.now()
    if (!isPooled || short === undefined || now < short.turnAt || countOpen() === 1) return false
    short.turnAt = now + TURN_MS
    return true
  }

  /** The first call that may have a connection. */
  function findWaiter(): Waiter | undefined {
    // As after most calls.
    if (waiters.length === 0) return undefined
    const room = countRoom()
    return waiters.find(({ call }) => room[call.share] > 0)
  }

  /** Lends a connection to the first call that may have one. */
  function take(client: PooledClient): void {
    if (client.config === hosts.current() && !open.has(client)) noteNew(client)
    const waiter = findWaiter()
    // Another host took over while it was opened, or it broke.
    const isUseless = client.broken !== undefined || !open.has(client)
    if (isUseless || waiter === undefined) {
      client.release(isUseless)
      return
    }
    waiters = waiters.filter(other => other !== waiter)
    Object.assign(waiter.call, { client, sinceMs: performance.now() })
    running.add(waiter.call)
    waiter.resolve(client)
  }

  function noteNew(client: PooledClient): void {
    hosts.note(client)
    open.add(client)
    if (short === undefined || countOpen() <= short.open) return
    // It was being opened when another could not be.
    if (most() < MOST) short.open = countOpen()
    else {
      onWarning('database gives enough connections again')
      short = undefined
      pool.options.idleTimeoutMillis = IDLE_CONNECTION_MS
    }
  }

  function noteFailure(error: unknown): void {
    if (closed !== undefined) return
    if (countOpen() === 0) {
      hosts.noteFailure(error)
      return
    }
    if (short === undefined) onWarning('database gives too few connections', error)
    short = { open: countOpen(), retryAt: performance.now() + SHORTAGE_MS, turnAt: 0 }
    pool.options.idleTimeoutMillis = SHORT_IDLE_MS
  }

  /** How many connections can be used. */
  function countOpen(): number {
    return [...open].filter(({ broken }) => broken === undefined).length
  }

  function rejectAll(reason: Error): void {
    for (const { reject } of waiters.splice(0)) reject(reason)
  }

  return {
    hosts,

    /**
     * A connection for a call, until `release`. Throws `storage_unavailable`, `overloaded` if the wait is given up because other
     * long work has the whole share, and `shutting_down` after `close`.
     */
    acquire: (call: Call): Promise<HostClient> =>
      new Promise((resolve, reject) => {
        if (closed !== undefined) throw new ServiceError('shutting_down')
        hosts.requireReachable()
        waiters.push({ call, resolve, reject })
        serve()
      }),

    /** Takes the connection of a call back, if it has one. One that is broken is replaced when it is needed. */
    release: (call: Call) => {
      const { client, sinceMs = 0 } = call
      if (client === undefined) return
      running.delete(call)
      call.client = undefined
      hosts.noteUse(client, sinceMs)
      if (isTheirTurn(client)) client.release(true)
      else take(client)
      serve()
    },

    /** A call has no time left: ends its wait for a connection, or the connection with its statement. */
    giveUp: (call: Call) => {
      const reason = new NoAnswer('no answer, or no free connection, in time')
      const waiter = waiters.find(each => each.call === call)
      waiters = waiters.filter(other => other !== waiter)
      const isFull = call.share === 'long' && countRoom().long <= 0
      waiter?.reject(
        isFull ? new ServiceError('overloaded', { cause: reason }) : unavailable(reason),
      )
      // Each statement of long work has an end of its own.
      if (call.share !== 'long') call.client?.destroy(reason)
    },

    /** Its connections now. One that is still being opened does not count; work waits for it. */
    report: () => ({
      active: running.size,
      idle: pool.idleCount,
      waiting: waiters.length,
      ...(short !== undefined && { short: { open: countOpen(), wanted: MOST } }),
    }),

    /** From now on there are no new calls. Resolves once the others have ended, and closes their connections. */
    close: (): Promise<void> => {
      closed ??= pool.end()
      hosts.close()
      return closed
    },

    /** Ends what runs and what waits. */
    destroy: (reason: Error) => {
      rejectAll(reason)
      for (const { client } of running) client?.destroy(reason)
    },
  }
}
