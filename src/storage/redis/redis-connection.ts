import { createClient, createCluster, type RedisClientOptions } from '@redis/client'
import type { RedisLocation, RedisNode } from '../../config/redis-url.ts'
import { asUnusableRedis, UnusableRedis } from './redis-errors.ts'

/**
 * Sends a command about one key to the Redis server, or to the master of a Redis Cluster that has it. Commands of one turn of
 * the event loop are sent together. Rejects with what the server or the connection says, at once if it is lost.
 */
export type Send = (key: string, command: string[]) => Promise<unknown>

/** A connection as its user holds it. */
export interface Link {
  /** Called when the connection, or one of those to a Cluster, is lost. Never once `signal` is aborted. */
  readonly onEnd: (error: unknown) => void
  /** Ends the attempt, or later the connection. Commands that wait reject. */
  readonly signal: AbortSignal
}

/**
 * Connects to Redis, and finds out whether it is a Cluster. There is no queue for commands while it is not connected, and it
 * never connects again by itself: who uses it decides when to.
 */
export type Connect = (link: Link) => Promise<Send>

type Client = ReturnType<typeof createClientFor>
type Cluster = ReturnType<typeof createClusterFor>

/**
 * What connects to one place, again and again. For other options node-redis makes a class with all commands, which takes tens of
 * milliseconds; a duplicate has that of its model.
 */
export function createRedisConnector(location: RedisLocation): Connect {
  const model = createClientFor(location)
  let clusterModel: Cluster | undefined
  return async link => {
    const { onEnd, signal } = link
    const { client, node } = await openFirst(location, model, signal)
    if (await isOfCluster(client)) {
      client.destroy()
      clusterModel ??= createClusterFor(location)
      return openCluster(clusterModel.duplicate({ rootNodes: [rootOf(location, node)] }), link)
    }
    if (location.nodes.length > 1) {
      client.destroy()
      throw new UnusableRedis('these servers are not nodes of a Redis Cluster: name one server')
    }
    signal.throwIfAborted()
    client.on('error', error => {
      if (!signal.aborted) onEnd(error)
    })
    return (_key, command) => client.sendCommand(command)
  }
}

/** Callers have timeouts of their own, and a signal for each command costs more than the command. */
const OF_COMMANDS = { RESP: 2, commandOptions: { timeout: 0 } } as const

function createClientFor(location: RedisLocation) {
  return createClient({ ...OF_COMMANDS, ...optionsOf(location), socket: socketOf(location) })
}

function createClusterFor(location: RedisLocation) {
  return createCluster({
    rootNodes: [],
    ...OF_COMMANDS,
    defaults: { ...optionsOf(location), socket: socketOf(location) },
    maxCommandRedirections: 4,
  })
}

/** Only the one that has answered: others are tried for seconds. */
function rootOf(location: RedisLocation, node: RedisNode) {
  return { socket: socketOf(location, node) }
}

/** The connection to the node that answers first; the others are dropped. */
async function openFirst(location: RedisLocation, model: Client, signal: AbortSignal) {
  const attempts = location.nodes.map(node =>
    openNode(model.duplicate(rootOf(location, node)), node, signal),
  )
  try {
    const first = await Promise.any(attempts)
    for (const attempt of attempts) {
      attempt.then(
        ({ client }) => client !== first.client && client.destroy(),
        () => {},
      )
    }
    return first
  } catch (error) {
    // What a node says tells more than that another cannot be reached.
    const { errors } = error as AggregateError
    throw errors.find(asUnusableRedis) ?? errors[0]
  }
}

async function openNode(client: Client, node: RedisNode, signal: AbortSignal) {
  // The promise of `connect` rejects with it too.
  client.on('error', () => {})
  signal.addEventListener('abort', () => client.destroy())
  try {
    await client.connect()
    // A client that is destroyed while its socket is being opened goes on.
    signal.throwIfAborted()
    return { client, node }
  } catch (error) {
    client.destroy()
    throw error
  }
}

/** A server that does not allow the question is taken for one of no Cluster. */
async function isOfCluster(client: Client): Promise<boolean> {
  try {
    return String(await client.sendCommand(['INFO', 'cluster'])).includes('cluster_enabled:1')
  } catch {
    return false
  }
}

async function openCluster(cluster: Cluster, { onEnd, signal }: Link): Promise<Send> {
  let lastError: unknown
  const keepError = (error: unknown) => {
    lastError = error
  }
  cluster.on('error', keepError)
  cluster.on('node-error', keepError)
  signal.addEventListener('abort', () => cluster.destroy())
  try {
    await cluster.connect()
    signal.throwIfAborted()
  } catch (error) {
    cluster.destroy()
    throw lastError ?? error
  }
  cluster.on('node-error', error => {
    if (!signal.aborted) onEnd(error)
  })
  return (key, command) => cluster.sendCommand(key, false, command)
}

function optionsOf({ username, password, database }: RedisLocation) {
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(database !== 0 && { database }),
    disableOfflineQueue: true,
    // Servers before 7.2 do not know it.
    disableClientInfo: true,
    maintNotifications: 'disabled',
  } satisfies RedisClientOptions
}

const CONNECT_TIMEOUT_MS = 1000

function socketOf({ isEncrypted }: RedisLocation, node?: RedisNode) {
  return {
    ...node,
    ...(isEncrypted && { tls: true as const }),
    connectTimeout: CONNECT_TIMEOUT_MS,
    reconnectStrategy: false as const,
  }
}
