import type { RedisLocation } from '../../config/redis-url.ts'
import { withinPatience } from '../../waiting/patience.ts'
import { COUNT_SCRIPT, COUNT_SCRIPT_SHA1 } from './counter-script.ts'
import { openRedisConnection, type RedisConnection } from './redis-connection.ts'

export interface RedisLinkOptions {
  readonly location: RedisLocation
  /** What the name of every key begins with. */
  readonly prefix: string
  /** How long Redis may take to count. */
  readonly patienceMs: number
  /** Called when the connection is lost and there is no other at once. */
  readonly onBroken: (error: unknown) => void
}

/** Counters in Redis by their names, over a connection that can be replaced. */
export interface RedisLink {
  /** Connects and counts something on trial, in place of the connection before. Ends within about a second. */
  open(): Promise<void>
  /**
   * Counts names in windows of whole milliseconds; a window of 0 deletes the name, and one of -5 ends in 5. Resolves to two
   * numbers for each: its count, and the milliseconds until its window ends.
   */
  count(names: readonly string[], windowsMs: readonly number[]): Promise<readonly number[]>
  close(): void
}

/** How long it may take to connect. */
const OPEN_MS = 1000

/**
 * Tags of keys in a Cluster, which decide on the slot of a key. Only keys of one slot can be counted together, so there are few
 * of them. Each is in the middle of another sixteenth of the slots, and so the nodes get equal shares.
 */
const TAGS = '18 5x dj 3r d2 pv uh iy ly h9 uv q6 9s 5f dt ha'.split(' ')

/** No client is counted by this name. */
const TRIAL = 'trial'

export function createRedisLink(options: RedisLinkOptions): RedisLink {
  const { location, prefix, patienceMs, onBroken } = options
  let current: Promise<RedisConnection> | undefined
  let abort = new AbortController()
  let openedAt = 0

  async function open(): Promise<void> {
    close()
    const { signal } = abort
    const opening = connect(signal)
    current = opening
    try {
      await withinPatience(OPEN_MS, opening)
      openedAt = performance.now()
    } catch (error) {
      if (current === opening) close()
      throw error
    }
  }

  async function connect(signal: AbortSignal): Promise<RedisConnection> {
    let isTried = false
    const onEnd = (error: unknown) => {
      if (isTried) void replace(error)
    }
    const connection = await openRedisConnection({ location, signal, onEnd })
    // The first time, Redis may have to read the script.
    await tryOut(connection)
    await withinPatience(patienceMs, tryOut(connection))
    isTried = true
    return connection
  }

  /** A connection that ends while nothing waits for it, such as one that was idle for long, is replaced without notice. */
  async function replace(error: unknown): Promise<void> {
    if (performance.now() - openedAt < OPEN_MS) return onBroken(error)
    const opening = open()
    const { signal } = abort
    try {
      await opening
    } catch (reason) {
      if (!signal.aborted || current === undefined) onBroken(reason)
    }
  }

  function tryOut(connection: RedisConnection): Promise<unknown> {
    return connection.isCluster
      ? Promise.all(TAGS.map(tag => run(connection, [keyIn(tag, TRIAL)], [OPEN_MS])))
      : run(connection, [prefix + TRIAL], [OPEN_MS])
  }

  function keyIn(tag: string, name: string): string {
    return `${prefix}{${tag}}${name}`
  }

  async function countInCluster(
    connection: RedisConnection,
    names: readonly string[],
    windowsMs: readonly number[],
  ): Promise<readonly number[]> {
    const replies: number[] = []
    await Promise.all(
      [...groupByTag(names)].map(async ([tag, indices]) => {
        const keys = indices.map(index => keyIn(tag, names[index] as string))
        const windows = indices.map(index => windowsMs[index] as number)
        const counted = await run(connection, keys, windows)
        for (const [place, index] of indices.entries()) {
          replies[2 * index] = counted[2 * place] as number
          replies[2 * index + 1] = counted[2 * place + 1] as number
        }
      }),
    )
    return replies
  }

  function close(): void {
    current?.catch(() => {})
    current = undefined
    abort.abort()
    abort = new AbortController()
  }

  return {
    open,
    count: async (names, windowsMs) => {
      if (current === undefined) throw new Error('not connected')
      const connection = await current
      if (connection.isCluster) return countInCluster(connection, names, windowsMs)
      const keys = names.map(name => prefix + name)
      return run(connection, keys, windowsMs)
    },
    close,
  }
}

/** Runs the script. Redis forgets scripts when it restarts, and then gets its text again. */
async function run(
  connection: RedisConnection,
  keys: readonly string[],
  windowsMs: readonly number[],
): Promise<readonly number[]> {
  const [first = ''] = keys
  const parameters = [String(keys.length), ...keys, ...windowsMs.map(String)]
  const ask = (command: string, script: string) =>
    connection.send(first, [command, script, ...parameters]) as Promise<readonly number[]>
  try {
    return await ask('EVALSHA', COUNT_SCRIPT_SHA1)
  } catch (error) {
    if (!(error as Error).message.startsWith('NOSCRIPT')) throw error
    return ask('EVAL', COUNT_SCRIPT)
  }
}

/** The places of the names of each tag, by the first digit of the name. */
function groupByTag(names: readonly string[]): Map<string, number[]> {
  const groups = new Map<string, number[]>()
  for (const [index, name] of names.entries()) {
    const tag = TAGS[Number.parseInt(name.charAt(0), 16)] as string
    const group = groups.get(tag)
    if (group === undefined) groups.set(tag, [index])
    else group.push(index)
  }
  return groups
}
