import pg, { type PoolClient } from 'pg'
import { ServiceError } from '../../errors.ts'
import { setTimeout } from '../../platform/timers.ts'
import { HostClient } from './host-client.ts'
import { createHosts, type HostsOptions } from './hosts.ts'
import type { Share } from './postgres-connections.ts'
import { explainRefusal, unavailable } from './postgres-errors.ts'

/** The most connections for each kind of work: together as many as a process opens. */
const SHARES: Readonly<Record<Share, number>> = { short: 4, list: 4, write: 4, long: 3 }

const KINDS = Object.keys(SHARES) as Share[]

const MOST = Object.values(SHARES).reduce((sum, size) => sum + size)

/** Then an idle connection is closed: other processes may need it, and the server may sleep. */
const IDLE_CONNECTION_MS = 10_000

/** From a connection that could not be opened beside others to the next attempt. */
const SHORTAGE_MS = 5000

/** A client of the pool, while that has lent it to this module. */
type PooledClient = HostClient & Pick<PoolClient, 'release'>

interface Waiter {
  readonly share: Share
  readonly resolve: (client: PooledClient) => void
  readonly reject: (error: unknown) => void
}

/** What gives up a call: first its wait for a connection, then its statement. */
export interface Call {
  giveUp: (reason: Error) => void
}

/**
 * One pool, in which each kind of work has a share that it may not exceed. A connection that is free goes to whoever waits for
 * one: no call waits for a certain connection to be opened. If the server gives fewer connections, the shares shrink.
 */
export function createConnectionShares(options: Omit<HostsOptions, 'onLost'>) {
  const { onWarning = () => {} } = options
  const hosts = createHosts({
    ...options,
    onLost: (reason, isAway) => {
      for (const client of open) client.destroy(reason)
      if (isAway) rejectAll(reason)
    },
  })
  const open = new Set<PooledClient>()
  const lent = new Map<PooledClient, Share>()
  let waiters: Waiter[] = []
  /** For how many connections the pool was asked that it has not given yet. */
  let asked = 0
  /** How many there were when no more could be opened, until one more can. */
  let shortAt: number | undefined
  let isClosed = false

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
  pool.on('connect', client => noteNew(client as unknown as PooledClient))
  pool.on('remove', client => open.delete(client as unknown as PooledClient))
  // The pool drops an idle connection that breaks.
  pool.on('error', () => {})

  /** How many more connections a kind of work may have. `max` is lower while there is a shortage. */
  function roomOf(share: Share): number {
    const most = Math.floor((SHARES[share] * pool.options.max) / MOST)
    return Math.max(1, most) - [...lent.values()].filter(each => each === share).length
  }

  /** How many connections can be used. */
  function countOpen(): number {
    for (const client of open) if (client.broken !== undefined) open.delete(client)
    return open.size
  }

  /** How many connections the pool can still give: idle ones, and others that it opens. */
  function countFree(): number {
    return pool.idleCount + pool.options.max - pool.totalCount - pool.waitingCount
  }

  /** Asks the pool for as many connections as can be used now. */
  function serve(): void {
    if (waiters.length === 0) return
    const canUse = (share: Share) =>
      Math.min(roomOf(share), waiters.filter(waiter => waiter.share === share).length)
    const usable = KINDS.reduce((sum, share) => sum + Math.max(0, canUse(share)), 0)
    while (asked < usable && countFree() > 0) {
      asked++
      pool.connect((error, client) => {
        asked--
        if (client !== undefined) lend(client as unknown as PooledClient)
        else noteFailure(explainRefusal(error, hosts.current()))
        serve()
      })
    }
  }

  function noteNew(client: PooledClient): void {
    // If another host took over meanwhile, `lend` ends it.
    if (client.config !== hosts.current()) return
    hosts.note(client)
    open.add(client)
    if (shortAt === undefined || countOpen() <= shortAt) return
    if (pool.options.max < MOST) {
      // It was being opened when another could not be.
      shortAt = countOpen()
      pool.options.max = shortAt
      return
    }
    onWarning('database gives enough connections again')
    shortAt = undefined
  }

  function lend(client: PooledClient): void {
    const waiter = waiters.find(({ share }) => roomOf(share) > 0)
    if (client.broken !== undefined || !open.has(client) || isClosed) client.release(true)
    else if (waiter === undefined) client.release()
    else {
      waiters = waiters.filter(other => other !== waiter)
      lent.set(client, waiter.share)
      waiter.resolve(client)
    }
  }

  function noteFailure(error: unknown): void {
    if (isClosed) return
    if (countOpen() === 0) {
      hosts.noteFailure(error)
      return
    }
    if (shortAt === undefined) onWarning('database gives too few connections', error)
    shortAt = open.size
    pool.options.max = open.size
    setTimeout(() => {
      pool.options.max = MOST
      serve()
    }, SHORTAGE_MS).unref()
  }

  function rejectAll(reason: Error): void {
    for (const { reject } of waiters.splice(0)) reject(reason)
  }

  return {
    hosts,

    /**
     * A connection for a call that gives up its wait by `giveUp`. Throws `storage_unavailable`, `overloaded` if other long work
     * has the whole share, and `shutting_down` after `close`.
     */
    acquire: (share: Share, call: Call): Promise<PooledClient> =>
      new Promise((resolve, reject) => {
        if (isClosed) throw new ServiceError('shutting_down')
        hosts.requireReachable()
        const waiter = { share, resolve, reject }
        call.giveUp = cause => {
          waiters = waiters.filter(other => other !== waiter)
          const isFull = share === 'long' && roomOf(share) <= 0
          reject(isFull ? new ServiceError('overloaded', { cause }) : unavailable(cause))
        }
        waiters.push(waiter)
        serve()
      }),

    /** Gives a connection back. One that is broken is replaced when it is needed. */
    release: (client: PooledClient) => {
      lent.delete(client)
      lend(client)
      serve()
    },

    /** Its connections now. One that is still being opened does not count; work waits for it. */
    report: () => ({
      active: lent.size,
      idle: pool.idleCount,
      waiting: waiters.length,
      ...(shortAt !== undefined && { short: { open: countOpen(), wanted: MOST } }),
    }),

    /** Closes the idle connections in order, and the others at once. */
    close: (reason: Error) => {
      isClosed = true
      hosts.close()
      rejectAll(new ServiceError('shutting_down'))
      pool.end().catch(() => {})
      for (const client of lent.keys()) client.destroy(reason)
    },
  }
}
