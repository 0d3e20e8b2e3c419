import { type CounterStore, counterText } from '../../limits/counter-store.ts'
import { createPatience, withinPatience } from '../../platform/patience.ts'
import { clearInterval, clearTimeout, setInterval, setTimeout } from '../../platform/timers.ts'
import { openRedisCounterStore, type RedisCounterStoreOptions } from './redis-counter-store.ts'
import { asUnusableRedis, reasonOf } from './redis-errors.ts'

type OfRedis = Pick<RedisCounterStoreOptions, 'location' | 'prefix' | 'secret' | 'steadyNow'>

export interface RedisCountersOptions extends OfRedis {
  /** Counts while Redis does not. */
  readonly local: CounterStore
  /** Called once an outage, with its reason in words. */
  readonly onLost: (reason: string) => void
  readonly onBack: () => void
}

/** How long a count waits for Redis: 50 ms, less what timers may be late. */
const PATIENCE_MS = 40

const RETRY_EVERY_MS = 250

/** How often something is counted on trial, so that the loss of Redis is noticed without requests. */
const HEARTBEAT_MS = 1000

const HEARTBEAT = counterText('track 0 ', '', HEARTBEAT_MS)

/**
 * Opens counters in Redis, which are local while it cannot be used. Waits for it at most a second. Throws `UnusableRedis`
 * if waiting does not help.
 */
export async function openRedisCounters(
  options: RedisCountersOptions,
): Promise<FallbackCounterStore> {
  const { local, onLost, onBack, ...ofRedis } = options
  const store = createFallbackCounterStore({
    open: link => openRedisCounterStore({ ...link, ...ofRedis, patienceMs: PATIENCE_MS }),
    local,
    patienceMs: PATIENCE_MS,
    retryEveryMs: RETRY_EVERY_MS,
    onLost: error => onLost(reasonOf(error)),
    onBack,
  })
  try {
    await store.start()
  } catch (error) {
    const unusable = asUnusableRedis(error)
    if (unusable !== undefined) {
      store.close()
      throw unusable
    }
    store.lose(error)
  }
  const heartbeat = setInterval(() => {
    if (!store.isLocal()) void store.increment(HEARTBEAT)
  }, HEARTBEAT_MS).unref()
  return {
    ...store,
    close: () => {
      clearInterval(heartbeat)
      store.close()
    },
  }
}

export interface FallbackCounterStoreOptions extends Pick<RedisCountersOptions, 'local'> {
  /**
   * Opens the store that counts for several processes. It may be slow, fail, or never answer. It calls `onEnd` if it can answer
   * no more, and ends with `signal`.
   */
  readonly open: (link: {
    readonly signal: AbortSignal
    readonly onEnd: (error: unknown) => void
  }) => Promise<CounterStore>
  /** How long a count waits for the shared store. */
  readonly patienceMs: number
  /** The time from the loss of the shared store, or from the end of an attempt to open it again, to the next attempt. */
  readonly retryEveryMs: number
  /** Called once each time that the shared store is lost, with the reason. */
  readonly onLost: (error: unknown) => void
  /** Called once each time that it answers again. */
  readonly onBack: () => void
}

export type FallbackCounterStore = ReturnType<typeof createFallbackCounterStore>

/** How long it may take to open the shared store. */
const OPEN_MS = 1000

/**
 * Counts in a shared store and, while that fails or does not answer, in a local one. The first call that fails, or that has no
 * answer after `patienceMs`, ends the wait of all others. From then on calls cost nothing but their local count, until the shared
 * store is open again. No call fails because of the shared store.
 */
export function createFallbackCounterStore(options: FallbackCounterStoreOptions) {
  const { open, local, patienceMs, retryEveryMs, onLost, onBack } = options
  const patience = createPatience()
  /** Ends the shared store, or the attempt to open it. Aborted between a loss and the next attempt, and after `close`. */
  let link = new AbortController()
  /** `undefined` while this process counts by itself. */
  let shared: CounterStore | undefined
  let retryTimer: NodeJS.Timeout | undefined

  async function start(): Promise<void> {
    link = new AbortController()
    const { signal } = link
    const onEnd = (error: unknown) => {
      if (shared !== undefined) lose(error)
    }
    const opened = await withinPatience(OPEN_MS, open({ signal, onEnd }))
    signal.throwIfAborted()
    shared = opened
  }

  function lose(error: unknown): void {
    if (link.signal.aborted) return
    end()
    onLost(error)
    retryLater()
  }

  function end(): void {
    link.abort()
    shared = undefined
    patience.giveUpAll()
  }

  function retryLater(): void {
    retryTimer = setTimeout(retry, retryEveryMs).unref()
  }

  async function retry(): Promise<void> {
    try {
      await start()
    } catch {
      if (link.signal.aborted) return
      link.abort()
      retryLater()
      return
    }
    onBack()
  }

  async function askShared<T>(
    store: CounterStore,
    question: (store: CounterStore) => T | Promise<T>,
  ): Promise<T> {
    const { signal } = link
    try {
      return await patience.within(patienceMs, Promise.resolve(question(store)))
    } catch (error) {
      // Not for what belongs to an earlier loss.
      if (!signal.aborted) {
        lose(error)
        // All others that wait count before this one.
        await undefined
      }
      return question(local)
    }
  }

  function ask<T>(question: (store: CounterStore) => T | Promise<T>): T | Promise<T> {
    return shared === undefined ? question(local) : askShared(shared, question)
  }

  return {
    /** Opens the shared store. Rejects if that fails: the caller then decides between `lose` and `close`. */
    start,

    increment: (text: string, amount?: number) => ask(store => store.increment(text, amount)),
    decrement: () => {},
    resetKey: (text: string, inMs?: number) => {
      // The local store may have counted the key during an earlier loss.
      local.resetKey(text, inMs)
      return ask(store => store.resetKey(text, inMs))
    },
    letRunOut: (rules: ReadonlySet<string>) => local.letRunOut?.(rules),

    /** Whether this process counts by itself. */
    isLocal: () => shared === undefined,

    /** Counts locally from now on, until the shared store is open again. For a loss that the caller notices first. */
    lose,

    /** Ends the shared store, and all attempts to open it. Calls that wait are counted locally, and so are later ones. */
    close: (): void => {
      clearTimeout(retryTimer)
      end()
    },
  }
}
